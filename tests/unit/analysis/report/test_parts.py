"""The parts of an evaluation in a report: one row, one table of classes, one list of mistakes, over all samples."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.report import answers
from inferbench_tasks.analysis.report.parts import merged, one_of_each
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.quality.intervals import share
from tests.unit.analysis.evaluations.builders import SAMPLES, evaluated
from tests.unit.analysis.evaluations.builders import answers as answered

WRONG = {3, 4, 5, 12}


def part(number: int, of: int = 2, precision: str = "fp32", wrong: set[int] = WRONG, **more: Any) -> RunView:
    """Every so many-th of the twenty samples, as the run of a sweep."""
    rows = list(range(SAMPLES))[number - 1 :: of]
    job = {"name": "coins", "evaluate": {"part": f"{number}/{of}"}, "convert": {"precision": precision}}
    job |= more.pop("asked", {})
    counts = [[0, 0], [0, 0]]
    for at in rows:
        counts[at % 2][(at + (at in wrong)) % 2] += 1
    evaluation = {
        "samples": len(rows),
        "differing": {"compared": len(rows), "beyond_tolerance": number, "samples": [number]},
        "confusion": {"classes": [0, 1], "counts": counts},
    } | more.pop("evaluation", {})
    run_id = more.pop("run_id", f"coins.{precision}-{number}")
    result = evaluated(run_id, wrong & set(rows), provenance={"job": job}, evaluation=evaluation, **more)
    result.model.precision = precision
    table = answered(wrong).take(rows)
    label = f"{precision}, {number}/{of}"
    return RunView(run_id, job, result.verdict, result, None, answers=lambda: table, label=label)


def test_parts_are_one_row_over_all_samples() -> None:
    """16 of 20 with Wilson's interval over twenty, both parts' differing samples, and the words say twenty samples."""
    views = [part(1), part(2)]
    (measures, *_) = answers.tables(views)
    (row,) = measures["rows"]
    whole = share(16, 20)
    low, high = (f"{100 * end:.2f}%" for end in (whole.low or 0, whole.high or 0))
    by_name = dict(zip(measures["head"], row, strict=True))
    assert by_name["run"] == "coins, 2 parts"
    assert by_name["top-1"] == by_name["top-1 one by one"] == f"80.00% ({low} to {high})"
    assert by_name["answered otherwise under load"] == "3 of 20 (samples 1, 2)"
    assert (
        "coins, 2 parts: one evaluation of fp32, 1/2, fp32, 2/2, each measure made anew." in measures["note"]
    )
    assert "coins, 2 parts has no auc: what it needs of each sample is not kept." in measures["note"]
    assert answers.words(views).startswith("Each of 20 samples of coins was asked")


def test_classes_and_mistakes_are_of_all_parts() -> None:
    """Counts add up, by hand: of ten samples of each class two and two are named the other; four mistakes in all."""
    tables = {table["title"]: table for table in answers.tables([part(1), part(2)])}
    rows = tables["Classes and answers"]["rows"]
    assert [row[1:] for row in rows] == [["8", "2"], ["2", "8"]]
    assert [row[1] for row in tables["Surest mistakes"]["rows"]] == ["12", "5", "4", "3"]


def test_two_evaluations_in_parts_are_compared_as_wholes() -> None:
    """int8's parts lose four samples against fp32's, over all twenty; parts are never compared with each other."""
    views = [part(1, wrong=set()), part(2, wrong=set()), part(1, precision="int8"), part(2, precision="int8")]
    found = merged(views)
    assert [view.label for view in found.views] == ["precision fp32, 2 parts", "precision int8, 2 parts"]
    (pairs,) = [table for table in answers.tables(views) if table["title"].startswith("Against")]
    assert pairs["title"] == "Against precision fp32, 2 parts, sample by sample"
    (row,) = pairs["rows"]
    assert row[:4] == ["precision int8, 2 parts", "0", "4", row[3]] and row[3].startswith("-20.00")


def test_parts_of_a_sweep_over_something_else_are_whole_for_each_of_its_values() -> None:
    """Two parts with one thread and two with two: two wholes. A part of each makes none, whatever their models."""
    views = [
        part(
            number,
            wrong=WRONG if threads == 2 else set(),
            run_id=f"coins.{threads}{number}",
            asked={"serve": {"threads": threads}},
        )
        for number in (1, 2)
        for threads in (1, 2)
    ]
    found = merged(views)
    assert [view.label for view in found.views] == ["threads 1, 2 parts", "threads 2, 2 parts"]
    right = [view.evaluation["under_load"]["measures"]["top1_ratio"]["value"] for view in found.views]
    assert right == [1.0, 0.8]
    unlike = [views[0], views[3]]
    assert merged(unlike).views == unlike


def test_blocks_repeat_an_evaluation_in_parts() -> None:
    """Each of two blocks is a whole of its own; what only labels a job keeps no parts apart."""
    views = [
        part(number, run_id=f"coins.{block}{number}", asked={"block": block, "description": f"part {number}"})
        for block in (1, 2)
        for number in (1, 2)
    ]
    assert [view.evaluation["samples"] for view in merged(views).views] == [SAMPLES, SAMPLES]


def test_what_any_part_lacks_is_told_of_the_whole() -> None:
    """The second part could not tell macro F1: neither can both together, and the note has the reason."""
    lacking = part(2)
    assert lacking.result is not None
    under_load = lacking.evaluation["under_load"]
    left = {name: value for name, value in under_load["measures"].items() if name != "macro_f1"}
    lacking.result.extensions["evaluation"]["under_load"] = {
        **under_load, "measures": left, "left_out": {"macro_f1": "one class alone"},
    }  # fmt: skip
    found = merged([part(1), lacking])
    (whole,) = found.views
    assert "macro_f1" not in whole.evaluation["under_load"]["measures"]
    assert whole.evaluation["under_load"]["left_out"]["macro_f1"] == "one class alone"
    assert "coins, 2 parts has no macro_f1, for fp32, 2/2 has none: one class alone." in found.notes


def test_the_samples_with_the_largest_differences_stay_first() -> None:
    """9 of the second part has the largest of all, 4 of the first that of its part; then the second ones of each."""
    first, second = (
        part(number, evaluation={"differing": {
            "compared": 10, "beyond_tolerance": len(samples), "samples": samples, "largest_ratio": largest,
        }})
        for number, samples, largest in ((1, [4, 0, 2], 0.2), (2, [9, 1], 0.5))
    )  # fmt: skip
    (whole,) = merged([first, second]).views
    assert whole.evaluation["differing"]["samples"] == [9, 4, 1, 0, 2]


def test_answers_under_load_of_parts_add_up() -> None:
    """Counts are sums, the largest difference is that of all; parts that were held to other bounds make no whole."""

    def held(number: int, otherwise: int, largest: float, bound: float) -> RunView:
        told = {
            "compared": 10, "bound_ratio": bound, "beyond_tolerance": 1, "other_class": otherwise - 1,
            "otherwise": otherwise, "largest_ratio": largest, "samples": [number],
        }  # fmt: skip
        return part(number, evaluation={"differing": told})

    (whole,) = merged([held(1, 2, 0.3, 0.02), held(2, 3, 0.1, 0.02)]).views
    assert whole.evaluation["differing"] == {
        "compared": 20, "bound_ratio": 0.02, "beyond_tolerance": 2, "other_class": 3, "otherwise": 5,
        "largest_ratio": 0.3, "samples": [1, 2],
    }  # fmt: skip
    apart = merged([held(1, 2, 0.3, 0.02), held(2, 3, 0.1, 0.3)])
    assert len(apart.views) == 2
    assert "answers under load were held to bounds of 0.02 and 0.3" in apart.notes[0]


@pytest.mark.parametrize("views", [[part(1)], [part(1), part(2, 3)], [part(1), part(1)]])
def test_what_makes_no_whole_is_shown_as_it_is(views: list[RunView]) -> None:
    """One part of two, parts of other numbers, one twice: each its own row, and the note says why."""
    found = merged(views)
    assert [view.run_id for view in found.views] == [view.run_id for view in views]
    (measures, *_) = answers.tables(views)
    assert len(measures["rows"]) == len(views) and "they make no whole: " in measures["note"]


def test_a_whole_with_a_part_that_does_not_count_says_so() -> None:
    """The measures stand, and the note names the part and its verdict."""
    bad = part(2)
    bad.verdict = Verdict.model_validate("invalid: late")
    assert bad.result is not None
    bad.result.verdict = bad.verdict
    (measures, *_) = answers.tables([part(1), bad])
    assert len(measures["rows"]) == 1
    assert "coins, 2 parts does not count, for fp32, 2/2 is invalid: late." in measures["note"]


def test_a_part_that_failed_is_named_and_there_is_no_whole() -> None:
    """The part that answered stands as what it is, and the note says what became of the other one."""
    failed = part(2)
    failed.verdict = Verdict.model_validate("failed: load, it broke")
    failed.result = failed.answers = None
    (measures, *_) = answers.tables([part(1), failed])
    assert [row[0] for row in measures["rows"]] == ["fp32, 1/2"]
    assert "fp32, 2/2 has no answers, it is failed: load, it broke. No figure is of all" in measures["note"]


def test_runs_that_asked_all_stand_where_they_stood() -> None:
    """Between parts too; a run without its answers is no part."""
    whole = part(1)
    whole.job = {"name": "coins", "evaluate": {"part": None}, "convert": {"precision": "fp16"}}
    found = merged([part(1), whole, part(2)])
    assert [view.run_id for view in found.views] == ["coins.fp32-1", whole.run_id]
    assert found.views[1] is whole
    silent = part(1)
    silent.answers = None
    assert merged([silent]).views == [silent] and not merged([silent]).notes


def speed(verdict: str = "valid", rate: float | None = 200.0, p99: float | None = 5.0, **checks: Any) -> Any:
    """A part's verdict and summary; ``checks``: of its objective, figure -> (value, bound, met)."""
    summary: dict[str, Any] = {"throughput_samples_per_s": rate, "e2e_latency_ms": {"p99": p99}}
    if checks:
        met = [met for _, _, met in checks.values()]
        known = {
            name: dict(zip(("value", "bound", "met"), check, strict=True)) for name, check in checks.items()
        }
        whole = False if False in met else None if None in met else True
        summary["slo"] = {"met": whole, "checks": known}
    return {"verdict": verdict, "summary": summary}


@pytest.mark.parametrize(
    ("first", "second", "worst"),
    [
        (speed(rate=10, p99=99), speed("disturbed: steal took 9%"), 2),
        (speed("failed: load, it broke"), speed("invalid: late"), 1),
        (speed(p99_ms=(5.0, 20.0, True)), speed(p99_ms=(19.0, 20.0, None)), 2),
        (speed(p99_ms=(21.0, 20.0, False)), speed(p99_ms=(19.0, 20.0, None)), 1),
        # 40 of 20 is 2 times the bound, 30 of 20 1.5 times.
        (speed(rate=100, p99_ms=(30.0, 20.0, False)), speed(p99_ms=(40.0, 20.0, False)), 2),
        # Of at least 100 samples/s 40 are 2.5 times too few; 2 times the bound of p99 is nearer.
        (
            speed(throughput_samples_per_s=(40.0, 100.0, False)),
            speed(p99_ms=(40.0, 20.0, False)),
            1,
        ),
        (speed(rate=200, p99=6), speed(rate=199, p99=5), 2),
        (speed(rate=None), speed(rate=1), 1),
        (speed(p99=5), speed(p99=6), 2),
        (speed(p99=None), speed(p99=6), 1),
        (speed(), speed(), 1),
    ],
)  # fmt: skip
def test_of_parts_the_worst_speaks_for_all(first: Any, second: Any, worst: int) -> None:
    """By verdict, objective, how far it is from that, samples/s, p99; whichever of them stands first."""
    parts = [part(number, **about) for number, about in ((1, first), (2, second))]
    ((shown, run),) = one_of_each(parts)
    assert run is parts[worst - 1]
    assert (shown.run_id, shown.label) == (run.run_id, "coins, 2 parts")
    ((_, turned),) = one_of_each(parts[::-1])
    assert turned is run or first == second
