"""Advice, recommendation, leaderboard, comparison and replay never contradict each other on the same results."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.analysis.certainty import SETTLED
from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.leaderboard import ranked
from inferbench_tasks.analysis.recommend.recommender import choose
from inferbench_tasks.analysis.report.advice import Advice
from inferbench_tasks.analysis.report.advise import advise
from inferbench_tasks.analysis.report.choose import CPU, THROUGHPUT
from inferbench_tasks.analysis.report.differences import NONE_SHOWN, difference
from inferbench_tasks.analysis.report.paired import NOT_DECIDED
from inferbench_tasks.analysis.report.replay import agreement
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.figures import FIGURES
from tests.unit.perfdb.builders import result

SEEDS = range(100)
LIMIT_MS = 20.0


@dataclass(frozen=True)
class Made:
    """Made-up runs of one invocation; ``documents`` are those of the valid ones."""

    views: list[RunView]
    documents: list[dict[str, Any]]
    bounds: list[Bound]

    def of(self, *runs: str) -> list[dict[str, Any]]:
        return [document for document in self.documents if document["run_id"] in runs]


def outcome(seed: int) -> Made:
    """Two to six configurations, run once each, between hardly and clearly different; some results lack something."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 7))
    spreads = {name: rng.choice([0.0, 0.02, 0.1, 0.5]) for name in ("rate", "cpu", "latency", "energy")}
    bounded = rng.random() < 0.6
    views, documents = [], []
    for number in range(count):
        level = {name: float(np.exp(rng.normal(0, spread))) for name, spread in spreads.items()}
        summary = summary_of(rng, level, bounded=bounded)
        valid = rng.random() < 0.9
        verdict = "valid" if valid else "invalid: the client stalled"
        document = result(
            f"run-{number}",
            submission={"name": "x", "digest": f"{number:064d}"},
            summary=summary,
            verdict=verdict,
        )
        job = {"name": "x", "load": {"duration_s": 10.0, "batch_size": number + 1}}
        views.append(
            RunView(f"run-{number}", job, document.verdict, document, None, label=f"batch {number + 1}")
        )
        if valid:
            documents.append(document.model_dump())
    return Made(views, documents, [Bound("p99_ms", True, LIMIT_MS)] if bounded else [])


def summary_of(rng: np.random.Generator, level: dict[str, float], *, bounded: bool) -> dict[str, Any]:
    """The figures of a run whose throughput, CPU and latency are so many times the usual."""
    rate, cores = 100 * level["rate"], 0.5 * level["cpu"]
    p99 = None if rng.random() < 0.1 else 18 * level["latency"]
    latency: dict[str, Any] = {"mean": 5 * level["latency"], "p50": 4 * level["latency"], "p99": p99}
    chance = rng.random()
    if chance > 0.15:  # an earlier version looked for no intervals
        width = float(rng.choice([0.01, 0.1, 0.4]))
        latency["ci95"] = {
            name: [value * (1 - width / 2), value * (1 + width / 2)] if value and rng.random() > 0.2 else None
            for name, value in latency.items()
        }
    energy = {
        "joule_per_sample": 0.01 * level["energy"],
        "method": "rapl",
        "uncertainty_ratio": float(rng.choice([0.03, 0.6])),
    }
    met = None if p99 is None else p99 <= LIMIT_MS
    slo = {"met": met, "checks": {"p99_ms": {"value": p99, "bound": LIMIT_MS, "met": met}}}
    return {
        "ok": int(rng.choice([20, 200, 5000])), "e2e_latency_ms": latency, "throughput_rps": rate,
        "throughput_samples_per_s": rate, "error_ratio": 0.0, "accuracy_ratio": 0.9, "energy": energy,
        "resources": {"server": {"cpu_cores": {"mean": cores}}}, "cpu_ms_per_sample": cores * 1e3 / rate,
        **({"slo": slo} if bounded else {}),
    }  # fmt: skip


def beats(documents: list[dict[str, Any]], figure: str) -> tuple[str, float]:
    """The recommender's first of these, and the probability that it beats the next."""
    top = choose(documents, figure, []).top
    return top[0]["run"], top[0]["beats_next_probability"]


@pytest.mark.parametrize("seed", SEEDS)
def test_advice_and_recommendation_agree(seed: int) -> None:
    """Who keeps the objective, who is first and whether that is sure, by each figure that the advice decides by."""
    runs = outcome(seed)
    advice = advise(runs.views)
    recommended = choose(runs.documents, THROUGHPUT, runs.bounds)
    if not recommended.fitting:
        assert advice.best is None and not advice.among
        return
    if recommended.fitting == 1:
        assert advice.best is not None
        assert advice.best.run_id == recommended.top[0]["run"]
    else:
        first, second = recommended.top[:2]
        sure = first["beats_next_probability"] >= SETTLED
        assert ("the same within noise" in advice.text) == (advice.by != THROUGHPUT)
        if advice.by == THROUGHPUT:
            assert sure and advice.best is not None and advice.best.run_id == first["run"]
            assert len(advice.among) == recommended.fitting
        elif advice.by == CPU:
            assert sure == (second["run"] not in {view.run_id for view in advice.among})
        decided(runs, advice)
    if advice.best and runs.bounds:
        rows = choose(runs.of(advice.best.run_id), THROUGHPUT, runs.bounds).top
        unsure = rows[0]["keeps_slo_probability"] < SETTLED
        assert ("it is close to a bound" in advice.text) == unsure


def apart(first: str, advice: Advice) -> bool:
    """Whether the percentile that decides has an interval in the first run and above it in each of the others."""
    bounds = {view.run_id: FIGURES[advice.by or ""].interval_in(view.summary) for view in advice.among}
    own = bounds.pop(first)
    return own is not None and all(other is not None and own[1] < other[0] for other in bounds.values())


def decided(runs: Made, advice: Advice) -> None:
    """Of the runs between which a figure decided, the recommender puts the same one first, and is as sure."""
    if advice.by is None:
        assert "Too few requests for a percentile" in advice.text
        return
    names = [view.run_id for view in advice.among]
    first, _ = beats(runs.of(*names), advice.by)
    pairs = [beats(runs.of(first, other), advice.by)[1] for other in names if other != first]
    if advice.best is None:
        # Of a latency the advice also wants intervals that don't meet.
        assert min(pairs) < SETTLED or not apart(first, advice)
        assert "Surely higher" not in advice.text or max(pairs) >= SETTLED
    else:
        assert first == advice.best.run_id
        assert min(pairs) >= SETTLED


@pytest.mark.parametrize("seed", SEEDS)
def test_everybody_means_the_same_by_the_same(seed: int) -> None:
    """Two results tie on the leaderboard where no order is recommended; what a comparison of one figure claims, which
    takes more, is never against that order; and a replay of several figures takes more still.
    """
    runs = outcome(seed)
    results = {view.run_id: view.result for view in runs.views if view.result and view.valid}
    for a, b in pairwise(runs.documents):
        first, second = results[a["run_id"]], results[b["run_id"]]
        replayed = {row["figure"]: row["agrees"] for row in agreement(first, second)}
        for name in (THROUGHPUT, "throughput_rps", CPU, "mean_ms", "p50_ms", "p99_ms", "joule_per_sample"):
            figure = FIGURES[name]
            values = [figure.stored(document["summary"]) for document in (a, b)]
            if None in values:
                continue
            best, probability = beats([a, b], name)
            settled = probability >= SETTLED
            change = difference(first, second, name, {})
            shown = change.verdict not in (NONE_SHOWN, NOT_DECIDED)
            assert shown == (probability > 0.975), name
            if shown:
                assert settled and change.verdict == ("better" if best == b["run_id"] else "worse"), name
            together = difference(first, second, name, {}, comparisons=len(replayed))
            alike = together.verdict in (NONE_SHOWN, NOT_DECIDED)
            assert replayed.get(name, alike) is alike, name
            order = [a, b] if best == a["run_id"] else [b, a]
            assert [row["rank"] for row in ranked(order, figure, ())] == ([1, 2] if settled else [1, 1]), name


def test_made_up_results_are_of_every_kind() -> None:
    """What the two tests above are given leads to every kind of advice."""
    advice = [advise(outcome(seed).views) for seed in SEEDS]
    assert {(each.by, each.best is None) for each in advice} >= {
        (THROUGHPUT, False), (CPU, False), ("p99_ms", False), ("p99_ms", True), (None, False), (None, True),
    }  # fmt: skip
    texts = [each.text for each in advice]
    for part in (
        "No run keeps the SLO", "can't be told", "are left out", "is not distinguishable from", "Surely higher",
        "It also has the lowest", "The price is latency", "would settle it", "Nothing tells", "close to a bound",
    ):  # fmt: skip
        assert any(part in text for text in texts), part
