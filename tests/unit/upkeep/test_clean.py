"""What is past its bounds."""

from __future__ import annotations

import os
from pathlib import Path

from inferbench_tasks.upkeep.clean import excess
from inferbench_tasks.upkeep.entry import YOUNG_S, Entry
from inferbench_tasks.upkeep.keep import Keep
from inferbench_tasks.upkeep.places.logs import KEPT_BYTES, LONGEST_BYTES, _cut, _of_process
from inferbench_tasks.upkeep.sizes import allocated_bytes

DAY_S = 86_400.0
NOW_S = 100 * DAY_S


def entry(name: str, age_days: float, mb: int = 1, **more: object) -> Entry:
    return Entry(Path(name), mb * 10**6, NOW_S - age_days * DAY_S, lambda: "", **more)  # type: ignore[arg-type]


def past(entries: list[Entry], keep: Keep, *, unstored: bool = False) -> dict[str, str]:
    """Name -> what keeps it; empty: it goes."""
    return {str(p.entry.path): p.kept for p in excess(entries, keep, NOW_S, unstored)}


def test_what_is_old_goes_and_what_is_used_stays() -> None:
    """By age alone; who uses an entry is said."""
    entries = [entry("old", 31), entry("used", 40, in_use="run x"), entry("young", 29)]
    assert past(entries, Keep(30 * DAY_S)) == {"used": "run x", "old": ""}


def test_beyond_a_size_what_was_used_longest_ago_goes_first() -> None:
    """As many as it takes, and no more; what stays counts towards the size."""
    entries = [entry("a", 4), entry("b", 3, in_use="run x"), entry("c", 2), entry("d", 1)]
    assert past(entries, Keep(total_bytes=3.5e6)) == {"a": ""}
    assert past(entries, Keep(total_bytes=2.5e6)) == {"a": "", "b": "run x", "c": ""}
    assert past(entries, Keep(total_bytes=4e6)) == {}


def test_what_was_used_within_the_hour_stays_whatever_its_size() -> None:
    """Somebody may be about to use it again."""
    entries = [entry("now", 0, 10**6), entry("hour", YOUNG_S / DAY_S * 0.99, 10**6)]
    assert past(entries, Keep(0, 0)) == {}


def test_what_is_nowhere_else_goes_on_request_only() -> None:
    """And it is asked of what would go only: it may be costly to find out."""
    asked: list[str] = []

    def unstored(name: str) -> Entry:
        def ask() -> str:
            asked.append(name)
            return "only here"

        return entry(name, 40 if name == "old" else 1, unstored=ask)

    entries = [unstored("old"), unstored("new")]
    assert past(entries, Keep(30 * DAY_S)) == {"old": "only here"} and asked == ["old"]
    assert past(entries, Keep(30 * DAY_S), unstored=True) == {"old": ""} and asked == ["old"]


def test_a_log_that_a_process_writes_is_cut_and_goes_on(tmp_path: Path) -> None:
    """The newest part stays, what is written afterwards follows it, and the disk is free."""
    path = tmp_path / "scheduler.log"
    with open(path, "ab", buffering=0) as process:
        process.truncate(LONGEST_BYTES)
        process.write(b"x" * KEPT_BYTES + b"the last line\n")
        past_it = excess([_of_process(path)], Keep(), NOW_S)
        assert past_it and "longer than" in past_it[0].reason, "however short ago it was written"
        assert past_it[0].entry.remove() == ""
        process.write(b"and the next\n")
    assert path.stat().st_size == KEPT_BYTES + len(b"and the next\n")
    assert path.read_bytes().endswith(b"the last line\nand the next\n")
    assert _cut(path, 0) == "" and path.stat().st_size == 0


def test_what_a_folder_takes_of_the_disk(tmp_path: Path) -> None:
    """Blocks, so that a sparse file counts as what it takes; what a link leads to is elsewhere."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"x" * 100_000)
    os.truncate(tmp_path / "a" / "b" / "file", 10**9)
    big = tmp_path / "big"
    big.write_bytes(b"x" * 10**6)
    (tmp_path / "a" / "link").symlink_to(big)
    assert 100_000 <= allocated_bytes(tmp_path / "a") < 500_000
    assert allocated_bytes(tmp_path / "none") == 0
