"""What tells that a file was changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from inferbench_tasks import catalogue
from inferbench_tasks.stamps import NO_FILE, changed_ns, stamp, stamp_or_none, with_all_below


def rewritten(path: Path, text: str) -> None:
    """Other content of the same length, under the time that it had."""
    before = path.stat()
    time.sleep(0.02)
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_time_that_was_put_back_hides_no_change(tmp_path: Path) -> None:
    """Size and time of modification are as before, the stamp is another."""
    path = tmp_path / "x"
    path.write_text("one")
    before, about = stamp(path), path.stat()
    rewritten(path, "two")
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (about.st_size, about.st_mtime_ns)
    assert stamp(path) != before and changed_ns(path) > about.st_mtime_ns


def test_a_link_is_as_young_as_what_it_leads_to(tmp_path: Path) -> None:
    """And has its stamp; one that leads nowhere has its own time and no stamp."""
    (tmp_path / "x").write_text("one")
    (tmp_path / "link").symlink_to(tmp_path / "x")
    rewritten(tmp_path / "x", "two")
    assert changed_ns(tmp_path / "link") == (tmp_path / "x").stat().st_ctime_ns
    assert stamp(tmp_path / "link") == stamp(tmp_path / "x")
    (tmp_path / "nowhere").symlink_to(tmp_path / "none")
    assert changed_ns(tmp_path / "nowhere") > 0 and stamp_or_none(tmp_path / "nowhere") == NO_FILE


def test_all_below_is_found_through_links_and_once(tmp_path: Path) -> None:
    """A link to a folder is followed; one into itself ends."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1").touch()
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    found = [str(path.relative_to(tmp_path)) for path in with_all_below(tmp_path)]
    assert len(found) == len(set(found)) and {"a", "b"} <= set(found)
    assert {"a/1", "b/1"} & set(found)
    assert list(with_all_below(tmp_path / "a" / "1")) == [tmp_path / "a" / "1"]


def test_a_table_is_read_again_once_it_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate of 1 that becomes 2, in a file of the same size and time."""
    monkeypatch.setenv(catalogue.CONFIG_DIR, str(tmp_path))
    row = "rows:\n  - {region: x, g_per_kwh: %d, source: s, date: '2023'}\n"
    (tmp_path / "carbon.yaml").write_text(row % 1)
    assert catalogue.carbon_rows()[0].g_per_kwh == 1
    rewritten(tmp_path / "carbon.yaml", row % 2)
    assert catalogue.carbon_rows()[0].g_per_kwh == 2
