"""Which of several times of a brick is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.brick_jobs.chosen import Wanted, chosen
from inferbench_tasks.brick_jobs.cutting import FILE, Cutting, read
from inferbench_tasks.bricks.measure.method import Method, Setting

AT = datetime(2026, 1, 1, tzinfo=UTC)


def time(home: str, day: int, runs: int = 100, identity: str = "k") -> dict[str, Any]:
    """A document of ``brick_results``; moments have no zone, as MongoDB gives them back."""
    at = (AT + timedelta(days=day)).replace(tzinfo=None)
    return {
        "identity": identity,
        "home": home,
        "measured_at": at,
        "method": Method(runs=runs).model_dump(),
        "day": day,
    }


def day_of(found: Sequence[Mapping[str, Any]], own: str | None, wanted: Wanted | None) -> tuple[str, int]:
    """Whose is chosen, and of which day."""
    found = sorted(found, key=lambda one: one["day"])
    one = chosen(found, lambda one: one["home"], own, wanted)["k"]
    return one["home"], one["day"]


@pytest.mark.parametrize(
    ("times", "own", "oldest_day", "which"),
    [
        ([time("a", 1), time("b", 9)], "a", None, ("a", 1)),
        ([time("a", 1), time("b", 9)], "a", 5, ("b", 9)),
        ([time("a", 1), time("b", 9)], None, None, ("b", 9)),
        ([time("a", 1), time("a", 7), time("b", 9)], "a", 5, ("a", 7)),
        ([time("a", 1), time("b", 2)], "a", 5, ("a", 1)),
        ([time("b", 2), time("c", 3)], "a", 5, ("c", 3)),
        ([time("c", 1), time("b", 3), time("c", 8)], None, None, ("c", 8)),
    ],
    ids=[
        "own first",
        "usable first",
        "newest of all",
        "own of the usable",
        "none usable: own",
        "newest",
        "moved",
    ],
)
def test_usable_ones_come_first_then_the_own_then_the_newest(
    times: Sequence[Mapping[str, Any]], own: str | None, oldest_day: int | None, which: tuple[str, int]
) -> None:
    """In this order: an own time that is too old does not hide another host's that is not."""
    oldest = None if oldest_day is None else AT + timedelta(days=oldest_day)
    assert day_of(times, own, Wanted(method=Method(), oldest=oldest)) == which


def test_of_one_host_the_newest_counts_whatever_it_is_of() -> None:
    """An older one of more runs does not come back: the host was measured again since, and that is what is known."""
    times = [time("a", 1, runs=100), time("a", 2, runs=15)]
    assert day_of(times, "a", Wanted(method=Method(runs=100))) == ("a", 2)
    assert not Wanted(method=Method(runs=100)).allows(times[1])


def test_one_that_is_as_old_as_it_may_be_may_be_used() -> None:
    """``oldest`` itself is not too old, and a moment without a zone is UTC."""
    assert Wanted(method=Method(), oldest=AT).allows(time("a", 0))
    assert not Wanted(method=Method(), oldest=AT + timedelta(milliseconds=1)).allows(time("a", 0))


def test_what_was_wanted_is_kept_with_the_cut_models(tmp_path: Path) -> None:
    """The result is made of the times that were known when the models were cut, however long measuring took since; of
    cuttings of before it was kept, and where nothing is used again, none is wanted."""
    wanted = Wanted(method=Method(runs=50), oldest=AT)
    setting = Setting(processor="p", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1")
    for one in (wanted, None):
        cutting = Cutting(setting=setting, cuts=(), todo=(), failed={}, reused=0, wanted=one)
        (tmp_path / FILE).write_text(cutting.model_dump_json())
        found = read(tmp_path)
        assert found is not None and found.wanted == one
    (tmp_path / FILE).write_text(cutting.model_dump_json(exclude={"wanted"}))
    old = read(tmp_path)
    assert old is not None and old.wanted is None
