"""Which DAG files are read again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inferbench_tasks.provider.executors.watch import PATIENCE_S, FolderWatch

A = "a.py"


@pytest.fixture
def watch(tmp_path: Path) -> FolderWatch:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.yaml").write_text("name: one")
    return FolderWatch({A: lambda: [tmp_path / "a"], "b.py": lambda: [tmp_path / "not-there"]})


def test_nothing_changed_nothing_asked(watch: FolderWatch) -> None:
    """What the folders held at the start has been read at the start."""
    assert not watch.look(1.0)
    assert watch.to_ask_for({}, 1.0) == set()


@pytest.mark.parametrize("change", ["new", "edited", "removed", "deeper"])
def test_every_change_is_seen(watch: FolderWatch, tmp_path: Path, change: str) -> None:
    """A new, edited, removed or nested file has its DAG file read, and no other."""
    folder = tmp_path / "a"
    if change == "new":
        (folder / "two.yaml").write_text("name: two")
    elif change == "edited":
        os.utime(folder / "one.yaml", (5, 5))
    elif change == "removed":
        (folder / "one.yaml").unlink()
    else:
        (folder / "sub").mkdir()
        (folder / "sub" / "two.yaml").write_text("name: two")
    assert watch.look(10.0)
    assert watch.to_ask_for({A: (9.0, 8.0)}, 10.0) == {A}


def test_asked_once_while_it_is_being_read(watch: FolderWatch, tmp_path: Path) -> None:
    """A reading takes its time; asking again would have it read twice."""
    (tmp_path / "a" / "two.yaml").write_text("name: two")
    watch.look(10.0)
    last = {A: (9.0, 8.0)}
    assert watch.to_ask_for(last, 10.0) == {A}
    assert watch.to_ask_for(last, 11.0) == set()
    assert watch.to_ask_for(last, 10.5 + PATIENCE_S) == {A}


def test_a_reading_from_before_the_change_does_not_settle_it(watch: FolderWatch, tmp_path: Path) -> None:
    """Airflow drops the request for a file that it is just reading: then it is asked again."""
    (tmp_path / "a" / "two.yaml").write_text("name: two")
    watch.look(10.0)
    assert watch.to_ask_for({A: (5.0, 4.0)}, 10.0) == {A}
    assert watch.to_ask_for({A: (12.0, 9.5)}, 12.5) == {A}
    assert watch.look(13.0)
    assert watch.to_ask_for({A: (16.0, 13.5)}, 16.5) == set()
    assert not watch.look(17.0)


def test_a_change_during_a_reading_is_read_as_well(watch: FolderWatch, tmp_path: Path) -> None:
    """Two submissions in quick succession are both found."""
    (tmp_path / "a" / "two.yaml").write_text("name: two")
    watch.look(10.0)
    assert watch.to_ask_for({}, 10.0) == {A}
    (tmp_path / "a" / "three.yaml").write_text("name: three")
    watch.look(11.0)
    assert watch.to_ask_for({}, 11.0) == {A}
    assert watch.to_ask_for({A: (12.0, 10.5)}, 12.5) == {A}
    assert watch.to_ask_for({A: (15.0, 13.0)}, 15.5) == set()
