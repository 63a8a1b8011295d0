"""CONTRIBUTING.md's table of what `make test` leaves out names every file in which something is left out."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
#: What a row runs.
RUNS = re.compile(r"`([^`]+) -m long`")


def named() -> dict[str, set[Path]]:
    """Word of a row -> the files that it stands for; a word without a folder is in that of the one before it."""
    files: dict[str, set[Path]] = {}
    for words in RUNS.findall((ROOT / "CONTRIBUTING.md").read_text()):
        folder = ROOT
        for word in words.split():
            if "/" in word:
                folder = (ROOT / word).parent
            place = folder / Path(word).name
            there = place.rglob("test_*.py") if place.is_dir() else folder.glob(place.name)
            files[str(place.relative_to(ROOT))] = {*there}
    return files


def test_whoever_changes_something_finds_what_is_left_out_of_it() -> None:
    """Each file with a test that bears the mark is in a row, and each row names files that have some."""
    marked = {
        path for path in TESTS.rglob("test_*.py")
        if path != Path(__file__) and "pytest.mark.long" in path.read_text()
    }  # fmt: skip
    rows = named()
    known = {path for files in rows.values() for path in files}
    assert marked and [str(path.relative_to(ROOT)) for path in marked - known] == []
    assert [word for word, files in rows.items() if not files & marked] == []
