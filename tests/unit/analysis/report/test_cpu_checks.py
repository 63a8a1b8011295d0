"""CPU time is compared where clocks and shared cores are not known to differ, and what is not known is said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from inferbench_tasks.analysis.report.advise import advise
from inferbench_tasks.analysis.report.choose import not_one_clock
from inferbench_tasks.analysis.report.differences import compare_runs
from inferbench_tasks.analysis.report.runs import RunView
from tests.unit.analysis.builders import named, records, view


def runs(first_mhz: float | None, second_mhz: float | None) -> list[RunView]:
    """The second needs three times the CPU of the first, at those clocks (None: not told)."""
    views = []
    for at, mhz in enumerate((first_mhz, second_mhz)):
        one = view(
            records(5.0, seed=at),
            f"r.00{at}",
            cpu_cores=0.2 * 3**at,
            job={"serve__threads": at + 1, "slo": None},
        )
        assert one.result is not None
        summary: dict[str, Any] = one.result.summary.model_dump()
        summary["cpu_time"] = {
            "ci95": None,
            "clock": {"mhz": mhz, "known": mhz is not None, "text": "the machine reports no clock"},
            "siblings": {"busy_ratio": 0.0, "known": True, "text": "no hardware threads share a core"},
        }
        summary["cpu_ms_per_sample"] = 1.0 * 3**at
        schema = type(one.result.summary)
        one.result = one.result.model_copy(update={"summary": schema.model_validate(summary)})
        views.append(one)
    return named(*views)


def verdict_on_cpu(views: list[RunView]) -> str | None:
    (row,) = [row for row in compare_runs(views).figures if row["figure"] == "cpu_ms_per_sample"]
    verdict: str | None = row["differences"][0]["verdict"]
    return verdict


def test_at_one_clock_cpu_time_decides() -> None:
    """Nothing is in doubt, and nothing of it is said."""
    views = runs(2500, 2500)
    assert verdict_on_cpu(views) == "worse"
    advice = advise(views)
    assert advice.best is views[0] and "clock" not in advice.text


def test_at_clocks_that_differ_it_is_not_compared() -> None:
    """A fifth of the clock is no difference between configurations; the note and the advice say so."""
    views = runs(2500, 2000)
    assert verdict_on_cpu(views) is None
    assert any("their clocks differ (2,500 and 2,000 MHz)" in note for note in compare_runs(views).notes)
    assert "CPU per sample is not compared: their clocks differ" in advise(views).text


def test_an_unknown_clock_is_said_beside_the_verdict() -> None:
    """Most virtual machines don't tell theirs: the figure is compared, with that doubt."""
    views = runs(2500, None)
    assert verdict_on_cpu(views) == "worse"
    assert any("as if clocks were the same" in note for note in compare_runs(views).notes)
    assert "had a part in that is not known: the machine reports no clock" in advise(views).text


def test_clocks_are_compared_between_all_runs() -> None:
    """The first lies between two others, within 2% of each, and these are 3% apart."""
    middle, low, high = ({"cpu_time": {"clock": {"mhz": mhz}}} for mhz in (2500, 2463, 2537))
    views: Any = [SimpleNamespace(summary=summary) for summary in (middle, low, high)]
    assert not_one_clock(views[:2]) is None and not_one_clock([views[0], views[2]]) is None
    assert not_one_clock(views) == "their clocks differ (2,463 and 2,537 MHz)"
