"""Whether files can be made cold, before a training that needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.training import cold

IN_MEMORY = Path("/dev/shm")


@pytest.mark.skipif(not IN_MEMORY.is_dir(), reason="no file system in memory here")
def test_a_file_system_in_memory_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    """With the remedy, at the field; nothing is left of what was tried."""
    folder = IN_MEMORY / tmp_path_factory.mktemp("cold").name
    folder.mkdir()
    try:
        with pytest.raises(InputError, match="cold reads are not possible: .* 100% stay in memory") as caught:
            cold.check(folder)
        assert caught.value.field == "data.read" and list(folder.iterdir()) == []
    finally:
        folder.rmdir()


def test_what_the_kernel_does_not_tell_is_not_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The ranks look again, and the certificate says so."""
    monkeypatch.setattr(cold, "resident_ratio", lambda paths: None)
    cold.check(tmp_path)
    assert list(tmp_path.iterdir()) == []
