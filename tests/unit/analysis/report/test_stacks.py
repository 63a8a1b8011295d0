"""The report's section on what makes the difference, from made-up spans."""

from __future__ import annotations

import pytest

from inferbench_tasks.analysis.report import stacks
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.errors import PerfDBError
from inferbench_tasks.tracing.spans import table_of
from tests.unit.analysis.builders import view
from tests.unit.analysis.stack.spans import layer
from tests.unit.analysis.stack.spans import run as spans_of_run


def traced(label: str, us: float, verdict: str = "valid") -> RunView:
    """A run of two layers, the second of which takes so long."""
    made = view(None, label, verdict)
    layers = [layer("c", "Conv", 100, (1, 8)), layer("s", "Softmax", us, (1, 8))]
    made.spans = lambda: table_of(spans_of_run(0, 0, layers))
    made.label = label
    return made


def test_the_slower_one_is_set_beside_the_faster() -> None:
    """40 us more, all of them in the softmax: the bars add up to what the title says."""
    found = stacks.differences([traced("slow", 70), traced("fast", 30)])
    (chart,) = stacks.charts(found)
    assert chart["layout"]["title"]["text"] == "What slow takes more than fast: 0.04 ms"
    assert sum(chart["data"][0]["x"]) == pytest.approx(0.04)
    assert chart["data"][0]["y"][0] == "1. s"
    assert "0.14 ms by fast, 0.18 ms by slow: 1.29 times as long" in stacks.words(found)


def test_a_run_that_does_not_count_is_said_to_once() -> None:
    """What stalled its client may have met the requests that were traced, too."""
    views = [traced("slow", 70), traced("fast", 30, "invalid: the client stalled"), traced("other", 50)]
    text = stacks.words(stacks.differences(views))
    assert text.count("fast is invalid: the client stalled.") == 1 and "slow is" not in text


def test_what_else_differs_is_said() -> None:
    """A run of int8 beside one of fp32: the runtime need not be what makes the difference."""
    fast, slow = traced("fast", 30), traced("slow", 70)
    assert fast.result is not None and slow.result is not None
    assert "Not the same" not in stacks.words(stacks.differences([fast, slow]))
    fast.result.model.precision, slow.result.model.precision = "int8", "fp32"
    text = stacks.words(stacks.differences([fast, slow]))
    assert text.count("Not the same in both: precision, int8 and fp32.") == 1


def test_what_is_left_out_is_said() -> None:
    """Of twelve runs four of eleven comparisons are shown; of thirteen the last is in none."""
    views = [traced(f"run-{at:02}", 30 + at) for at in range(13)]
    found = stacks.differences(views)
    assert len(found) == 11 and len(stacks.charts(found)) == 4
    text = stacks.words(found, views)
    assert "4 of 11 comparisons are shown" in text and "The first 12 of 13 traced runs are compared." in text
    assert "run-04" in text and "run-05" not in text
    few = stacks.differences(views[:3])
    assert "are shown" not in (told := stacks.words(few, views[:3])) and "are compared" not in told


def test_a_smaller_batch_is_no_faster_stack() -> None:
    """A traced request of one sample takes less than one of eight: nothing makes that difference but the request. What
    was asked one by one is compared, whatever was in a request of its load."""
    one, eight = traced("one", 30), traced("eight", 240)
    assert one.result is not None and eight.result is not None
    one.result.load.batch_size, eight.result.load.batch_size = 1, 8
    one.result.extensions["trace"] = {"batch_size": 1}
    assert len(stacks.differences([one, eight])) == 1
    eight.result.extensions["trace"] = {"batch_size": 8}
    assert stacks.differences([one, eight]) == []


def test_one_run_or_spans_that_are_gone_make_no_section() -> None:
    """There is nothing to compare, and the report is made all the same."""

    def gone() -> None:
        raise PerfDBError("PerfDB has no file")

    other = traced("b", 1)
    other.spans = gone
    assert stacks.differences([traced("a", 1), other, view(None, "c")]) == []
    assert stacks.charts([]) == [] and stacks.words([]) == ""
