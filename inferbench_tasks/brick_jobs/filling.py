"""What is missing, divided among shards: the longest first, each to the shard with the least so far."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from inferbench_tasks.bricks.measure.bound import WARM_UP_S, WARM_UPS
from inferbench_tasks.bricks.measure.method import FEWEST_RUNS, Method

#: What timing a brick takes beside its runs: loading it; and beside each streamed run: the sweep of the
#: caches. Guesses, which decide on nothing but how evenly shards are filled.
LOAD_S, SWEEP_S = 0.05, 0.0015
#: What a network is guessed to take that was never timed: its arithmetic and its bytes at such rates, and a call.
FLOPS_PER_S, BYTES_PER_S, CALL_S = 20e9, 8e9, 5e-6
#: What a model is guessed to be before it is cut, at batch 1: a run of so many s, and so many bricks that no model
#: before it has, of so many s each. As those of ``paper50`` are, which took 11.8 s each as a whole (runs of 591 s,
#: copies included), and whose 1,003 bricks took runs of 1.02 s.
MODEL_RUN_S, MODEL_BRICKS, BRICK_RUN_S = 0.65, 30, 0.004


def run_s(flops: float, bytes_moved: float) -> float:
    """A guess of one run, s."""
    return CALL_S + flops / FLOPS_PER_S + bytes_moved / BYTES_PER_S


def measuring_s(one_run_s: float, method: Method, *, whole: bool) -> float:
    """What timing a network takes that runs so long: all rounds, in both states unless it is a whole model."""
    first_s = min(WARM_UPS * one_run_s, max(one_run_s, WARM_UP_S))
    warm_s = first_s + _runs_s(one_run_s, method)
    streamed_s = 0.0 if whole else _runs_s(one_run_s + SWEEP_S, method)
    return LOAD_S + method.rounds * (warm_s + streamed_s)


def model_s(method: Method, *, batch_size: int, granularities: int, whole: bool) -> float:
    """What measuring a model takes of which nothing is known yet: its bricks at each granularity, and itself."""
    brick_s = measuring_s(batch_size * BRICK_RUN_S, method, whole=False)
    whole_s = measuring_s(batch_size * MODEL_RUN_S, method, whole=True) if whole else 0.0
    return granularities * MODEL_BRICKS * brick_s + whole_s


def _runs_s(one_run_s: float, method: Method) -> float:
    """Those of one round: as many as fit into its budget, and the fewest that there may be in any case."""
    return max(FEWEST_RUNS * one_run_s, min(method.runs_each * one_run_s, method.budget_s))


def fill(estimates_s: Sequence[float], shards: int, shard_s: float) -> list[int]:
    """Which shard each belongs to. As many shards are filled as ``shard_s`` needs, at most ``shards``; others stay
    empty, since each device that is taken costs a start of its own.
    """
    used = min(shards, max(1, round(sum(estimates_s) / shard_s + 0.4999)))
    loads = [(0.0, shard) for shard in range(used)]
    chosen = [0] * len(estimates_s)
    for index in sorted(range(len(estimates_s)), key=lambda i: (-estimates_s[i], i)):
        load, shard = heapq.heappop(loads)
        chosen[index] = shard
        heapq.heappush(loads, (load + estimates_s[index], shard))
    return chosen
