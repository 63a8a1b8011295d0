"""The faults, each at three strengths, with the rule that has to name it; and clean runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.training import injections
from benchmarks.training.little_memory import little_memory
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.stages import generate

#: ``with injection(data):`` around the stage ``train``, in the thread that runs it.
Injection = Callable[[generate.Output], AbstractContextManager[None]]

_NET: dict[str, Any] = {"name": "canonical-cnn", "arguments": {"layers": 1, "channels": 8}}
_FILES: dict[str, Any] = {
    "model": _NET,
    "data": {"kind": "jpeg", "samples": 112, "image_size": 96},
    "train": {"batch_size": 8, "warmup_steps": 2},
}
#: Nothing but the fault holds it up: by the rank itself making these batches costs as much as slow reads.
_AHEAD: dict[str, Any] = {"loader": {"workers": 1}}
_DIGITS: dict[str, Any] = {"data": {"kind": "digits"}, "train": {"batch_size": 32}}
_TWO: dict[str, Any] = {"processes": 2, "strategy": "ddp"}


@dataclass(frozen=True)
class Case:
    """One strength of a fault. ``rule``: the one that has to come first; None of a clean run."""

    fault: str
    strength: str
    rule: str | None
    job: TrainingJob
    injection: Injection = injections.nothing

    @property
    def name(self) -> str:
        return f"{self.fault}/{self.strength}"


def _case(
    fault: str,
    strength: str,
    rule: str | None,
    *fields: dict[str, Any],
    injection: Injection = injections.nothing,
) -> Case:
    job: dict[str, Any] = {"kind": "training", "name": fault}
    for part in fields:
        for block, values in part.items():
            job[block] = {**job.get(block, {}), **values}
    return Case(fault, strength, rule, TrainingJob.model_validate(job), injection)


def cases() -> list[Case]:
    """All that a machine without GPUs can have."""
    of: list[Case] = []
    fields: tuple[dict[str, Any], ...]
    slow: Injection
    for rate in (8, 4, 2):  # at 16 MiB/s, or 150 reads/s, the loader process keeps up
        slow = partial(injections.slow_disk, limit="read_bps", value=rate << 20)
        fields = (_FILES, _AHEAD, {"data": {"read": "cold"}})
        of.append(_case("slow-reads", f"{rate} MiB/s", "fetch", *fields, injection=slow))
    for iops in (75, 40, 20):
        slow = partial(injections.slow_disk, limit="read_iops", value=iops)
        fields = (_FILES, _AHEAD, {"data": {"read": "cold"}})
        of.append(_case("no-cache", f"{iops} reads/s", "fetch", *fields, injection=slow))
    for factor in (1.5, 2.0, 3.0):
        large = partial(injections.larger_files, factor=factor)
        of.append(_case("heavy-decode", f"{factor:g}x side", "preparation", _FILES, injection=large))
    for workers in (1, 2, 4):
        fields = (_FILES, {"model": {"name": "resnet-18", "arguments": {}}, "loader": {"workers": workers}})
        one = injections.on_one_core
        of.append(_case("one-core", f"{workers} loaders", "cores", *fields, injection=one))
    for workers in (4, 6, 8):
        more: dict[str, Any] = {"devices": _TWO, "train": {"rounds": 7}}
        fields = (_FILES, {"model": {"name": "resnet-18", "arguments": {}}, "loader": {"workers": workers}})
        of.append(_case("too-many-loaders", f"2 x {workers}", "cores", *fields, more))
    of += [_case("threads", f"{n}", "threads", _DIGITS, {"devices": {"threads": n}}) for n in (4, 8, 16)]
    for size in (1, 2, 4):
        fields = ({"data": {"kind": "digits", "samples": 1024}, "train": {"batch_size": size}},)
        of.append(_case("tiny-batches", f"{size}", "small_batch", *fields))
    for share in (0.2, 0.35, 0.5):
        held = partial(injections.rank_held_back, share=share)
        # More steps than usual, for a fifth of the time is a difference of the size of a step's own scatter; and a
        # network of few parameters, whose exchange costs nothing beside it.
        fields = (_DIGITS, {"model": _NET, "devices": _TWO, "train": {"rounds": 6}})
        of.append(_case("held-back", f"{share:.0%}", "straggler", *fields, injection=held))
    for mbit in (800, 400, 200):
        slow = partial(injections.slow_loopback, rate=f"{mbit}mbit")
        of.append(
            _case("slow-link", f"{mbit} Mbit/s", "exchange", _DIGITS, {"devices": _TWO}, injection=slow)
        )
    for rate in (16, 8, 4):
        slow = partial(injections.cold_at_first, value=rate << 20)
        fields = (
            {"model": _NET, "data": {"kind": "dummy", "samples": 512, "image_size": 64}},
            {"train": {"batch_size": 16, "rounds": 5}},
        )
        of.append(_case("first-epoch", f"{rate} MiB/s", "first_epoch", *fields, injection=slow))
    for share in (0.9, 0.75, 0.5):
        # By a read a millisecond a step of 64 samples loses 64 ms at most.
        little = partial(little_memory, share=share, reads_per_s=1000)
        fields = (
            {"model": _NET, "data": {"kind": "dummy", "samples": 6400, "image_size": 32}},
            {"train": {"batch_size": 64}, "loader": {"shuffle": True}},
        )
        of.append(_case("little-memory", f"{share:.0%} fit", "memory", *fields, injection=little))
    for size in (16, 32, 64):
        fields = (
            {"model": {"name": "canonical-mlp"}, "data": {"kind": "digits", "where": "memory"}},
            {
                "train": {"benchmark": "inference", "batch_size": size, "rounds": 12},
                "loader": {"workers": 1},
            },
        )
        of.append(_case("hand-over", f"batches of {size}", "transfer", *fields))
    return of


#: Faults of the issue that are not injected here, with the reason.
NOT_HERE = {
    "unpinned copies": "needs a GPU",
    "device slower than its kind": "`slow_device` needs five devices of a kind; its test has made-up ones",
    "denormal momentum": "nothing from outside keeps gradients at 0 for hundreds of steps; a test writes such a state",
    "timing artefact": "a figure that is wrong holds nothing up: `startup_in_means` names it beside the causes",
}


def clean() -> list[Case]:
    """Runs that nothing is wrong with."""
    # Batches of 64: of 32 these small steps have a seventh that does not depend on their samples.
    larger: dict[str, Any] = {"train": {"batch_size": 64, "rounds": 5}}
    return [
        _case("clean", "one process", None, _DIGITS, larger),
        _case("clean", "in memory", None, _DIGITS, {"data": {"where": "memory"}}, larger),
        _case(
            "clean", "two ranks", None, _DIGITS, {"devices": _TWO, "train": {"batch_size": 64, "rounds": 9}}
        ),
        _case(
            "clean",
            "resnet-18",
            None,
            {
                **_FILES,
                "model": {"name": "resnet-18"},
                "data": {"kind": "dummy", "samples": 112, "image_size": 64},
            },
        ),
        _case("clean", "on the device", None, _DIGITS, {"data": {"where": "device"}}, larger),
        _case("clean", "files ahead", None, _FILES, _AHEAD),
    ]
