"""What a report says first."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.perfdb.documents import DeviceInfo, Provenance
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.measured import Diagnosis
from inferbench_tasks.training.report import charts
from inferbench_tasks.training.report.views import TrainingView
from inferbench_tasks.training.report.words import sentences
from tests.unit.training.report.results import view


def test_the_fastest_is_named_where_its_interval_says_so() -> None:
    """160 samples in 0.2 s are 800/s, 1.00 to 2.00 as 400/s: the intervals don't touch."""
    first = sentences([view("slow", 2, interval=(390, 410)), view("fast", 1, interval=(790, 810))])[0]
    assert first == "Fastest is fast: 800 samples/s (790 to 810), 2.00 times the next (slow)."


def test_a_slow_training_has_its_digits_and_no_rate_is_below_nothing() -> None:
    """3.412 samples/s beside 3.1: not 3 beside 3; and an interval of -0.4 to 2.4, as three rounds may have, begins at
    0."""
    runs = [view("slow", interval=(3.05, 3.15)), view("fast", interval=(3.38, 3.444))]
    for run, rate in zip(runs, (3.1, 3.412), strict=True):
        assert run.summary is not None
        run.summary.bare["samples_per_s"] = rate
    assert sentences(runs)[0] == (
        "Fastest is fast: 3.412 samples/s (3.38 to 3.444), 1.10 times the next (slow)."
    )
    assert runs[1].summary is not None
    runs[1].summary.bare |= {"samples_per_s": 4.0, "samples_per_s_ci95": [-0.4, 8.4]}
    assert sentences(runs)[0].startswith("The most samples/s has fast: 4 samples/s (0 to 8.4);")


def test_intervals_that_touch_set_nothing_apart() -> None:
    """The larger mean is said, and from which it is not set apart."""
    first = sentences([view("slow", 2, interval=(100, 795)), view("fast", 1, interval=(790, 810))])[0]
    assert first.startswith("The most samples/s has fast: 800") and first.endswith(
        "does not set it apart from slow."
    )
    unknown = view("slow", 2)
    assert unknown.summary is not None
    unknown.summary.bare["samples_per_s_ci95"] = None
    assert "does not set it apart from slow" in sentences([view("fast", interval=(790, 810)), unknown])[0]


def test_runs_of_other_work_and_runs_that_do_not_count_are_never_compared() -> None:
    """Other data; and an invalid run twice as fast."""
    texts = sentences([view("a", 2, data="dummy"), view("b", 1), view("c", 1, wrong="nobody watched")])
    assert not any("astest" in text or "samples/s" in text for text in texts)
    assert len(texts) == 2
    assert "nothing is compared" in sentences([view("c", wrong="nobody watched")])[0]


def test_a_step_is_told_by_its_largest_phases_and_what_it_waited() -> None:
    """Of 12 ms 5 are forward and 4 loading; 5 ms of waits; with several threads waits are sums and are not said."""
    (text,) = sentences([view("a")])
    assert text == (
        "a: of a step of 12 ms 42% forward and 33% loading; 42% of it its processes were ready to run and waited for "
        "a core."
    )
    assert "waited" not in sentences([view("a", threads=2)])[0]


def test_waits_of_threads_that_exchange_are_no_waits_of_the_step() -> None:
    """They waited 20 ms beside the 3 ms of the thread that runs the step: of 12 ms that is 42%, and not 183%.

    Of an older result, which has their sum alone, no more than the 3 ms that forward neither computed nor had left.
    """
    for older in (False, True):
        run = view("a")
        assert run.timing is not None
        phases = run.timing["phases"]
        phases["forward"]["wait_ms"] = 20.0
        if older:
            for phase in phases.values():
                del phase["own_wait_ms"], phase["own_cpu_ms"]
        assert "; 42% of it its processes were ready to run" in sentences([run])[0]
        chart = charts.cores(run)
        assert chart is not None
        assert [bar["x"] for bar in chart["data"]] == [
            pytest.approx([1, 1, 2]), pytest.approx([2, 0, 3]), pytest.approx([1, 0, 0]),
        ]  # fmt: skip


def test_more_processes_than_cores_are_named_beside_the_waits() -> None:
    """Two ranks with two loader processes each are six on two cores; two on two are not said, nor loader processes of a
    batch that lies on the device, which nobody starts.
    """
    run = view("a", ranks=2)
    run.result.device = DeviceInfo(kind="cpu", cores=2)
    assert sentences([run])[0].endswith("waited for a core.")
    run.result.loader = {"workers": 2}
    assert sentences([run])[0].endswith("waited for a core: 6 processes share 2 cores.")
    run.result.data["where"] = "device"
    assert sentences([run])[0].endswith("waited for a core.")


def test_data_on_the_device_is_no_training_that_is_faster() -> None:
    """Nothing is loaded there; nor are cold files the same work as warm ones, or augmented images as others."""
    for key, value in (("where", "device"), ("read", "cold"), ("augment", True)):
        one, other = view("a", 2, interval=(390, 410)), view("b", 1, interval=(790, 810))
        assert sentences([one, other])[0].startswith("Fastest is b")
        other.result.data[key] = value
        assert not any("astest" in text or "samples/s" in text for text in sentences([one, other])), key


def jade(loading_ms: float, forward_ms: float) -> dict[str, Any]:
    """Columns of that, the same over the measured steps."""
    columns = {"loading": loading_ms / 1e3, "forward": forward_ms / 1e3}
    return {"columns": columns, "without_warmup": columns, "step_s": sum(columns.values()), "epoch_s": 1.0}


def with_job(of: TrainingView) -> TrainingView:
    """Its truth: 4 + 1 ms of loading, 5 of forward."""
    job = {"kind": "training", "name": "x", "data": {"kind": "digits"}, "train": {"benchmark": "inference"}}
    of.result.provenance = Provenance.model_validate({"job": job})
    return of


@pytest.mark.parametrize(
    ("columns", "right"),
    [
        (jade(5, 5), True),
        (jade(5.5, 4.5), True),  # 5% of 10 ms
        (jade(5.6, 4.6), False),
        (jade(8, 5), False),  # the sum is not the step's, so that no rule names it
        ({**jade(5, 5), "without_warmup": None}, False),
        (jade(0.5, 5), False),
    ],
)
def test_columns_are_called_right_only_where_each_is(columns: dict[str, Any], right: bool) -> None:
    """That no rule fired proves nothing: 8 ms where 5 belong are not right, and without the measured steps alone nobody
    can tell.
    """
    texts = sentences([one := with_job(view("b", jade=columns))], [(one, Diagnosis(run_id="b", sentence=""))])
    assert texts[-1].startswith("BenchmarkJade's columns of b hold") is right
    assert ("of b hold what they are called by could not be told" in texts[-1]) is not right


def test_what_jades_clock_puts_into_the_wrong_column_is_said_first() -> None:
    """With the rule's sentence; of runs whose columns are right one sentence; of runs without such columns none."""
    wrong, right, without = (
        with_job(view("a", jade=jade(5, 5))),
        with_job(view("b", jade=jade(5, 5))),
        view("c"),
    )
    right.result.device = DeviceInfo(kind="cpu", cores=2)
    cause = Cause(
        rule="wrong_column", kind="wrong", sentence="It puts 3 ms of forward into loading.", evidence=[]
    )
    pairs = [
        (wrong, Diagnosis(run_id="a", sentence="", causes=[cause])),
        (right, Diagnosis(run_id="b", sentence="")),
        (without, Diagnosis(run_id="c", sentence="")),
    ]
    texts = sentences([wrong, right, without], pairs)
    assert texts[-2] == "a: It puts 3 ms of forward into loading."
    assert texts[-1].startswith("BenchmarkJade's columns of b hold what they are called by")
    assert texts[-1].endswith("a CPU runs in step with its host.")
