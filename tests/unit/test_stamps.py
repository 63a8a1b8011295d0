"""What tells that a file was changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from inferbench_tasks import catalogue
from inferbench_tasks.stamps import (
    NO_FILE,
    changed_ns,
    links_on_the_way,
    stamp,
    stamp_or_none,
    with_all_below,
)


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


@pytest.mark.parametrize("moved", ["middle", "folder"])
def test_a_link_in_the_middle_that_leads_elsewhere_is_a_change(tmp_path: Path, moved: str) -> None:
    """link -> middle -> folder/x, folder -> v1: once the one or the other leads to another, older file, the link is as
    young as that one; its own time and the file's tell nothing.
    """
    for name in ("v2", "v1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(name)
    (tmp_path / "folder").symlink_to("v1")
    (tmp_path / "middle").symlink_to("folder/../folder/x")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "middle")
    names = ["link", "middle", "folder", "folder"]
    assert [each.name for each in links_on_the_way(link) if each.is_relative_to(tmp_path)] == names
    before = changed_ns(link)
    time.sleep(0.02)
    (tmp_path / moved).unlink()
    (tmp_path / moved).symlink_to({"middle": "v2/x", "folder": "v2"}[moved])
    assert link.read_text() == "v2"
    assert changed_ns(link) == (tmp_path / moved).lstat().st_ctime_ns > before


def test_a_way_that_goes_round_ends(tmp_path: Path) -> None:
    """Two links that lead to each other have their own times."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert changed_ns(tmp_path / "a") == (tmp_path / "b").lstat().st_ctime_ns


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
