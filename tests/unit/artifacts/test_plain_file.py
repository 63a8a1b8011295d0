"""Files that are read whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.artifacts.plain_file import read_plain


def test_a_file_is_read_to_the_last_byte_that_is_allowed(tmp_path: Path) -> None:
    """One more is refused, also where the file says that it has none, as those of /proc do."""
    path = tmp_path / "f"
    path.write_bytes(b"1234")
    assert read_plain(path, 4) == b"1234"
    with pytest.raises(OSError, match="more than the 3 bytes"):
        read_plain(path, 3)
    status = Path("/proc/self/status")
    assert status.stat().st_size == 0
    with pytest.raises(OSError, match="more than the 3 bytes"):
        read_plain(status, 3)
