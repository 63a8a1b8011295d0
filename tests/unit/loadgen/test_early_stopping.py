"""A percentile keeps its bound, breaks it, or is undecided, and a run says how long it would have to be."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.loadgen.early_stopping import decide
from inferbench_tasks.loadgen.statistics import FLOORS


@pytest.mark.parametrize(("true_ms", "wrong"), [(1.01, True), (1.1, True), (0.99, False), (0.9, False)])
def test_a_run_is_wrong_about_its_objective_in_one_of_a_hundred(true_ms: float, wrong: bool) -> None:
    """15.13: whatever the true p99 beside a bound of 1 ms, at most 2% of 300 runs of 5,000 requests are wrong."""
    rng = np.random.default_rng(13)
    scale = true_ms / np.log(100)
    said = [decide(rng.exponential(scale, 5_000) > 1.0, 0.99).met for _ in range(300)]
    assert said.count(wrong) <= 0.02 * len(said)


def test_runs_in_clusters_count_as_what_they_are_worth() -> None:
    """A batch of 25 shares its latency, the true p95 is just above the bound: still wrong in at most 2% of 200 runs."""
    rng = np.random.default_rng(14)
    scale = 1.05 / np.log(20)
    said = [decide(np.repeat(rng.exponential(scale, 400), 25) > 1.0, 0.95).met for _ in range(200)]
    assert said.count(True) <= 0.02 * len(said)


@pytest.mark.parametrize(("quantile", "least"), FLOORS.items())
def test_the_floors_decide_with_one_request_over_the_bound(quantile: float, least: int) -> None:
    """LoadGen's counts: from so many requests one over the bound is met, with one request fewer undecided."""
    over = np.zeros(least, np.bool_)
    over[least // 2] = True
    assert decide(over, quantile).met is True
    assert decide(over[1:], quantile).met is None


def test_an_undecided_run_says_how_long_would_decide() -> None:
    """15.13: As many requests of the same kind as it says decide, and a tenth fewer don't."""
    over = np.random.default_rng(15).random(3_000) < 0.008
    decision = decide(over, 0.99)
    assert decision.met is None and decision.needed_requests is not None
    assert decision.over == np.count_nonzero(over)
    share = decision.over / decision.requests

    def again(requests: float) -> bool | None:
        rng = np.random.default_rng(16)
        longer = np.zeros(round(requests), np.bool_)
        longer[: round(requests * share)] = True
        return decide(rng.permutation(longer), 0.99).met

    assert again(1.1 * decision.needed_requests) is True
    assert again(0.8 * decision.needed_requests) is None


def test_nothing_decides_what_is_at_its_bound_or_was_one_episode() -> None:
    """Neither does a number of requests stand there; the reason does."""
    at_the_bound = np.zeros(10_000, np.bool_)
    at_the_bound[::100] = True
    close = decide(np.random.default_rng(17).permutation(at_the_bound), 0.99)
    assert close.met is None and close.needed_requests is None and close.reason
    episode = np.zeros(10_000, np.bool_)
    episode[4_000:4_120] = True
    once = decide(episode, 0.99)
    assert once.met is None and once.needed_requests is None and "episodes" in (once.reason or "")
    assert decide(np.zeros(0, np.bool_), 0.99).met is None


def test_a_few_requests_over_the_bound_count_as_one_cluster_at_worst() -> None:
    """Three in a row of 3,000 are met as one of 1,000 is; thirty in a row of 3,000 decide nothing."""
    over = np.zeros(3_000, np.bool_)
    over[1_500:1_503] = True
    assert decide(over, 0.99).met is True
    over[1_500:1_530] = True
    assert decide(over, 0.99).met is None
