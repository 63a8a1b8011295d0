"""A comparison claims a difference where its interval says so, and hardly ever between two runs of the same thing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.analysis.report.differences import NONE_SHOWN, Comparison, compare_runs
from inferbench_tasks.analysis.report.replay import agreement
from inferbench_tasks.analysis.report.terminal import views_of
from inferbench_tasks.perfdb.documents import ResultDocument
from tests.unit.perfdb.builders import result


def run(name: str, rng: np.random.Generator, drift: float, times: float = 1.0) -> ResultDocument:
    """A run of one configuration with sixteen figures, each of which drifts by itself from run to run."""

    def around(value: float) -> float:
        return value * float(np.exp(rng.normal(0, drift)))

    latency: dict[str, Any] = {
        name: around(value * times)
        for name, value in {
            "mean": 5.0,
            "p50": 4.0,
            "p90": 8.0,
            "p95": 9.0,
            "p99": 15.0,
            "p999": 20.0,
        }.items()
    }
    latency["ci95"] = {name: [value * 0.97, value * 1.03] for name, value in latency.items()}
    rate = around(100)
    summary = {
        "ok": 5000, "e2e_latency_ms": latency, "throughput_rps": rate, "throughput_samples_per_s": around(100),
        "goodput_rps": around(99), "accuracy_ratio": around(0.9), "cpu_ms_per_sample": around(3),
        "cost_usd_per_1k": around(0.1), "cost_usd_per_1k_samples": around(0.1), "co2_g_per_1k": around(0.4),
        "resources": {"server": {"cpu_cores": {"mean": around(0.5)}, "rss_bytes": {"max": around(2e8)}}},
    }  # fmt: skip
    return result(name, summary=summary)


def comparison(seed: int, drift: float, times: float = 1.0) -> Comparison:
    """Two runs, the second with so many times the latency; nothing is known of earlier ones."""
    rng = np.random.default_rng(seed)
    return compare_runs(views_of([run("a", rng, drift), run("b", rng, drift, times)]))


def verdicts(drawn: Comparison) -> list[str | None]:
    """What the comparison says of each figure."""
    return [change["verdict"] for row in drawn.figures for change in row["differences"]]


@pytest.mark.parametrize("drift", [0.03, 0.08])
def test_item_22_identical_configurations_are_called_different_in_well_under_5_percent(drift: float) -> None:
    """Item 22: of 200 comparisons of a configuration with itself over sixteen figures, hardly any claims anything."""
    claims = [
        any(v not in (NONE_SHOWN, None) for v in verdicts(comparison(seed, drift))) for seed in range(200)
    ]
    assert len(verdicts(comparison(0, drift))) >= 16
    assert np.mean(claims) < 0.035


@pytest.mark.parametrize("times", [1.0, 1.2, 1.5, 3.0])
def test_item_22_a_verdict_follows_the_interval_that_is_shown(times: float) -> None:
    """Item 22: never "worse" beside an interval that includes 1, nor "no difference" beside one that does not."""
    for seed in range(20):
        for row in comparison(seed, 0.05, times).figures:
            for change in row["differences"]:
                low, high = change["ci95"]
                assert (change["verdict"] == NONE_SHOWN) == (low <= 1 <= high), row["figure"]


def test_a_large_difference_is_still_shown() -> None:
    """Twice the latency of single runs: worse in nearly every comparison of sixteen figures."""
    claims = []
    for seed in range(50):
        (p50,) = [row for row in comparison(seed, 0.05, 2.0).figures if row["figure"] == "p50_ms"]
        claims.append(p50["differences"][0]["verdict"] == "worse")
    assert np.mean(claims) > 0.95


def test_item_22_a_replay_of_the_same_agrees() -> None:
    """Item 22: a replay looks at several figures too, and two runs of the same thing agree in all of them."""
    rng = np.random.default_rng(1)
    replays = [agreement(run("a", rng, 0.05), run("b", rng, 0.05)) for _ in range(200)]
    assert np.mean([not all(row["agrees"] for row in rows) for rows in replays]) < 0.035
