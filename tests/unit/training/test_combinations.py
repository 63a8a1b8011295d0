"""Every kind of training through all that is told of one: figures, diagnosis, report, comparison, scaling, exports.

Benchmarks, ranks and places of the data are all combined; networks, timings, kernels and ages of a result take turns,
so that each of them meets each benchmark. Of the faults `make test` has two for each combination.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.verdict import MODE
from inferbench_tasks.pipelines.training import TRAINING
from inferbench_tasks.tracing.forms import chrome
from inferbench_tasks.tracing.spans import table_of
from inferbench_tasks.training import nights, step_spans
from inferbench_tasks.training.again import agreement
from inferbench_tasks.training.comparison import compare
from inferbench_tasks.training.diagnosis.measured import Diagnosis, changed_job, diagnose
from inferbench_tasks.training.diagnosis.stalls import stalls_of
from inferbench_tasks.training.findings import findings
from inferbench_tasks.training.imported import table as jades_table
from inferbench_tasks.training.jade_table import jade_table
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.listing import row
from inferbench_tasks.training.report import compose, tables, words
from inferbench_tasks.training.report.views import PHASES
from inferbench_tasks.training.scaling.curve import curves
from inferbench_tasks.training.scaling.forecast import forecast
from inferbench_tasks.training.scaling.parts import parts_of
from tests.report_page import charts_of
from tests.unit.training.combined import NETWORKS, Combination, Fault, Made

BENCHMARKS = ("train", "inference", "smooth_inference")
RANKS = ("one", "alone", "two", "hosts")
#: Where the data lies, and loader processes: of a batch on the device there are none, whatever the job says.
PLACES = (("device", 0), ("device", 2), ("memory", 0), ("memory", 2), ("disk", 0), ("disk", 2))
TIMINGS = (
    ("synchronised",),
    ("synchronised", "jade"),
    ("synchronised", "events"),
    ("synchronised", "events", "jade"),
)
#: Whether the kernel tells waits, and whether the result is an older one.
TOLD = ((True, False), (True, True), (False, False))


def combinations() -> Iterator[Combination]:
    """Those that a submission may ask for."""
    turn = dict.fromkeys(BENCHMARKS, 0)
    for benchmark, ranks, (place, workers) in product(BENCHMARKS, RANKS, PLACES):
        at = turn[benchmark]
        for network in sorted(NETWORKS, key=lambda name: (list(NETWORKS).index(name) - at) % len(NETWORKS)):
            one = Combination(
                benchmark, ranks, network, place, workers, TIMINGS[at % len(TIMINGS)], *TOLD[at % len(TOLD)]
            )
            if not findings(one.job):
                turn[benchmark] += 1
                yield one
                break


ALL = list(combinations())
FAULTS = {
    "straggler": Fault(slow=1.6),
    "small_batch": Fault(growth=1.1),
    "preparation": Fault(phases_ms={"loading": 8.0}, made_ms={"transform": 7.0, "collate": 0.8}),
    "first_epoch": Fault(first=2.0),
    "exchange": Fault(blocked_ms={"backward": 4.0}),
}
#: Of smooth inference, which has few combinations, all; else each combination has two of the faults in turn, so that
#: each fault meets each ranks and place of the data; the others are more of the same.
FAULTY = [
    pytest.param(one, name, id=f"{one}-{name}", marks=() if usual else pytest.mark.long)
    for at, one in enumerate(ALL)
    for of, name in enumerate(FAULTS)
    for usual in [one.job.smooth or (at + of) % len(FAULTS) < 2]
]


@pytest.fixture(autouse=True)
def _judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MODE, raising=False)


def test_each_of_them_meets_each_benchmark() -> None:
    """All places but those that smooth inference has no use for, and all networks but tokens, which have no noise."""
    for benchmark in BENCHMARKS:
        smooth = benchmark == "smooth_inference"
        of = [one for one in ALL if one.benchmark == benchmark]
        assert len(of) == (len(RANKS) * 2 if smooth else len(RANKS) * len(PLACES))
        assert {one.network for one in of} == NETWORKS.keys() - ({"bert-base"} if smooth else set())
        assert {one.timing for one in of} == {*TIMINGS}
        assert {(one.waits, one.older) for one in of} == {*TOLD}


@pytest.mark.parametrize("one", ALL, ids=str)
def test_a_clean_run_is_told_whole_and_no_cause_is_named(one: Combination) -> None:
    """Phases, the clocks and what no phase has are the step; ranks alike are no straggler; nothing is said of phases
    that its benchmark has not; no figure is a NaN in any form that it is given out in.
    """
    made = Made(one)
    summary = made.result.summary
    assert summary is not None
    timing = summary.synchronised
    walls_ms = [of["wall_ms"]["mean"] for of in timing["phases"].values()]
    assert tuple(timing["phases"]) == made.phases and timing["steps"] == 3 * 28
    assert sum(walls_ms) + timing["unexplained_ms"] == pytest.approx(timing["step_ms"]["mean"])
    assert timing["unexplained_ms"] == pytest.approx(0.07)
    for rank in timing["ranks"]:
        assert sum(of["wall_ms"] for of in rank["phases"].values()) + 0.07 == pytest.approx(rank["step_ms"])
    assert (timing["all_reduce"]["reason"] is None) == (
        one.benchmark == "train" and made.job.devices.ranks > 1
    )
    assert (summary.loader["parts"] is None) == (not made.job.loads)
    assert (summary.jade is not None) == ("jade" in one.timing)
    assert (summary.events is not None) == ("events" in one.timing)
    if one.waits:  # who can't tell what the loader's processes used has not watched the machine
        assert made.ledger["watched"] and made.result.certificate["reasons"] == []

    diagnosis = diagnose(made.result, made.ranks, [made.result])
    assert diagnosis.causes == [] and diagnosis.sentence.startswith("No rule finds")
    page = compose.html([made.view], [(made.view, made.ranks)], {"name": "x"}, [(made.view, diagnosis)])
    drawn = json.dumps(charts_of(page))
    text = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(r"\b(nan|inf|infinity)\b", text + drawn, flags=re.IGNORECASE)
    assert foreign(made, [*said(made, diagnosis), *(of["name"] for of in bars(page))]) == set()

    assert row(made.result)["workers"] == TRAINING.row(made.job)["workers"] == made.job.workers
    json.dumps([row(made.result), made.result.model_dump(mode="json")], allow_nan=False, default=str)
    assert {*nights.phase_means(made.result.model_dump())} == {*made.phases, nights.BETWEEN}


@pytest.mark.parametrize(("one", "name"), FAULTY)
def test_what_holds_it_up_is_told_in_words_of_its_own_benchmark(one: Combination, name: str) -> None:
    """The rule whose fault it is names it, where such a run can have it; its remedy is a job that can be run."""
    made = Made(one, FAULTS[name])
    job = made.job
    can = {
        "straggler": job.devices.ranks > 1,
        "small_batch": not job.smooth,
        "preparation": job.loads and not one.workers,
        "first_epoch": True,
        # What blocks a thread is none of a core's waits only where these are told.
        "exchange": job.devices.ranks > 1 and one.benchmark == "train" and one.waits,
    }
    diagnosis = diagnose(made.result, made.ranks, [made.result])
    rules = [cause.rule for cause in diagnosis.causes]
    assert (name in rules) == can[name], diagnosis
    assert foreign(made, said(made, diagnosis)) == set()
    for cause in diagnosis.causes:
        assert cause.cost_s is not None and 0 < cause.cost_s <= (diagnosis.step_s or 0.0)
        changed = TrainingJob.model_validate(changed_job(made.result, cause))
        assert not cause.changes or not findings(changed), cause.changes


@pytest.mark.parametrize("one", ALL, ids=str)
def test_it_is_compared_exported_and_set_over_its_ranks(one: Combination) -> None:
    """A run whose steps take half as long again is worse in each figure that it has; its trace has a span for each
    step, rank and phase; its parts over ranks are its step; Jade's table reads back as it was.
    """
    made, slower = Made(one), Made(one, run="x-2.a", longer=1.5)
    comparison = compare(made.result, slower.result)
    names = [f"{name.replace('_', ' ')}, ms" for name in ("step", *made.phases)]
    assert [figure.name for figure in comparison.figures] == ["samples/s", *names]
    assert {figure.verdict for figure in comparison.figures} == {"worse"} and comparison.notes == ()
    assert foreign(made, [figure.name for figure in comparison.figures]) == set()
    assert agreement(made.result, made.result)

    spans = table_of(step_spans.spans("x", made.table.to_pylist(), ahead_ns=step_spans.ahead_of(made.result)))
    ranks = made.job.devices.ranks
    assert spans.num_rows == 3 * made.job.steps * (1 + ranks * (1 + len(made.phases)))
    assert b"NaN" not in chrome.content(spans, step_spans.about(made.result))

    parts = parts_of(made.ranks)
    assert (parts is not None) == one.waits
    if parts is not None:
        step_ms = float(np.mean([steps["step_ns"].mean() for steps in made.ranks])) / 1e6
        assert parts.step_ms == pytest.approx(step_ms)
        together = ranks > 1 and one.benchmark != "inference"
        assert (parts.exchange_ms > 0.05) == together

    if "jade" in one.timing:
        (read,) = jades_table.read(jade_table([made.result]), "t.md")
        assert read.benchmark == one.benchmark
        assert read.step_s == pytest.approx(made.result.summary.jade["step_s"], abs=1e-5)  # type: ignore[union-attr,index]


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_two_ranks_stand_on_one_curve_with_one(benchmark: str) -> None:
    """Weak scaling over the processes of a device: what two lose is their parts, and more are predicted."""
    samples = None if benchmark == "smooth_inference" else 500
    of = [
        Made(Combination(benchmark, ranks, "lstm", "memory", 0, samples=samples), run=ranks)
        for ranks in ("two", "one")
    ]
    raw = {made.result.run_id: made.ranks for made in of}
    results = [made.result for made in of]
    (curve,) = (one for one in curves(results, lambda result: raw[result.run_id]) if one.kind == "weak")
    last = curve.points[-1]
    assert last.lost_ms is not None and last.speedup == pytest.approx(2.0, rel=0.1)
    assert sum(last.lost_ms.values()) == pytest.approx(last.step_ms - last.ideal_step_ms)
    assert forecast(curve)[1] is None


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_stalls_are_the_differences_of_its_places(benchmark: str) -> None:
    """Files take half a millisecond more than memory, and memory a fifth more than a batch on the device."""
    times = {"device": 0.1, "memory": 0.3, "disk": 0.8}
    places = ("memory", "disk") if benchmark == "smooth_inference" else ("device", "memory", "disk")
    of = {
        place: Made(
            Combination(benchmark, "two", "lstm", place, 0),
            Fault(phases_ms={"loading": times[place]}),
            run=place,
        )
        for place in places
    }
    found = stalls_of(of["memory"].result, [made.result for made in of.values()])
    assert found is not None and {*found.runs} == {*places}
    assert found.of["preparing"].mean == pytest.approx(0.5, abs=0.05)
    assert ("batches" in found.of) == ("device" in places)
    assert foreign(of["memory"], [found.sentence()]) == set()


def said(made: Made, diagnosis: Diagnosis) -> list[str]:
    """All that is told of a run in words, in the notes and titles of its tables, and its phases' table."""
    causes = [
        text for cause in diagnosis.causes for text in (cause.sentence, *cause.evidence, cause.remedy or "")
    ]
    (table,) = tables.phases([made.view])
    texts = [diagnosis.sentence, *causes, *words.sentences([made.view], [(made.view, diagnosis)])]
    notes = [of["note"] for of in (table, *tables.jade([made.view]), *tables.events([made.view]))]
    return [*texts, *notes, *tables.runs([made.view])["head"], *(of[0] for of in table["rows"])]


def bars(page: str) -> list[dict[str, Any]]:
    """The series of the page's charts that have a name."""
    return [of for chart in charts_of(page).values() for of in chart["data"] if of.get("name")]


def foreign(made: Made, texts: list[str]) -> set[str]:
    """The words among these that are of another benchmark."""
    others = {name.replace("_", " ") for name in PHASES if name not in made.phases}
    if made.job.train.benchmark != "train":
        others |= {"gradients", "all-reduce", "learns", "train", "training", "trained"}
    everything = " ".join(texts).lower()
    return {word for word in others if re.search(rf"\b{word}\b", everything)}
