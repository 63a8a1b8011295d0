"""Numbers in an optimiser's state that a processor computes with slowly: how many there are, and what they cost.

Below the smallest normal float (1.2e-38 in fp32) a number is denormal, and many processors take tens of times as long
for it. Momentum of a weight whose gradients are 0 shrinks by a constant factor in each step, so that it comes there
after some hundred steps, and stays: a few of the smallest denormals by 0.9 are rounded to what they were.
"""

from __future__ import annotations

from copy import deepcopy
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from inferbench_tasks.training.own_step import median_ms

if TYPE_CHECKING:
    from inferbench_tasks.training.rank import Rank

FIGURES: Final = ("denormal_ratio", "optimiser_ms", "optimiser_flushed_ms")


def probe(rank: Rank) -> dict[str, float | None]:
    """``denormal_ratio``: of the floats in the optimiser's state, as the last epoch left it. Where there are any, of a
    rank with one thread: ``optimiser_ms``, a step of the optimiser from that state, and ``optimiser_flushed_ms``, the
    same where the processor takes such numbers for 0 (``train.flush_denormals``), a setting of each thread. A compiled
    network's optimiser is none of what is compiled, and is timed as any other.

    {} on a GPU, whose units are as fast with them, of what has no optimiser, and of one without such a state.
    """
    if rank.job.train.benchmark != "train" or rank.device.type != "cpu":
        return {}
    state = rank.optimiser.state_dict()
    floats = [tensor for of in state["state"].values() for tensor in of.values() if _counts(tensor)]
    if not floats:
        return {}
    count = sum(int(_denormal(tensor).sum()) for tensor in floats)
    found: dict[str, float | None] = {"denormal_ratio": count / sum(tensor.numel() for tensor in floats)}
    if count and rank.job.devices.threads == 1:
        found |= _times(rank, state)
    return found


def _times(rank: Rank, state: dict[str, Any]) -> dict[str, float | None]:
    """By copies of weights and state; gradients of 0 leave denormals where they are. Both ways twice, each first once:
    what makes the machine slower by and by is in either alike.
    """
    import torch

    weights = [weight.detach().clone() for weight in rank.module.parameters()]
    for at in state["state"]:
        weights[at].grad = torch.zeros_like(weights[at])
    copy = rank.computing.optimiser(weights)
    times_ms: dict[bool, list[float]] = {False: [], True: []}
    for flushed in (False, True, True, False):
        copy.state.clear()  # one copy at a time lies beside the training's
        copy.load_state_dict(deepcopy(state))
        try:
            if torch.set_flush_denormal(flushed) or not flushed:
                times_ms[flushed].append(median_ms(rank, copy.step))
        finally:
            torch.set_flush_denormal(False)
    names = {"optimiser_ms": False, "optimiser_flushed_ms": True}
    return {name: fmean(of) if (of := times_ms[flushed]) else None for name, flushed in names.items()}


def _counts(value: Any) -> bool:
    """Whether it is a tensor of floats, and not the number of steps."""
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() > 0


def _denormal(tensor: Any) -> Any:
    """Which of its numbers are; none where the processor takes them for 0."""
    import torch

    return (tensor != 0) & (tensor.abs() < torch.finfo(tensor.dtype).tiny)
