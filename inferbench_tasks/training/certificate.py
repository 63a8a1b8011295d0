"""Whether a training's figures count: checks that its steps can fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.contracts.verdict import Reason, Verdict
from inferbench_tasks.metrics import interference
from inferbench_tasks.training.cold import RESIDENT_RATIO
from inferbench_tasks.training.order import Answer
from inferbench_tasks.training.statistics import LEAST_STEPS
from inferbench_tasks.training.taken import filled_up

#: Ranks that started alike and averaged their gradients have the same weights, but for the order of additions.
SAME_WEIGHTS_RATIO = 1e-6
#: The sum of the phases beside the step's time; outside of it is said, with what is not explained.
EXPLAINED_RATIO = (0.97, 1.03)
#: Samples/s with instruments beside those without.
INSTRUMENTED_RATIO = 0.95


def certify(
    answers: Sequence[Answer],
    summary: dict[str, Any],
    ledger: dict[str, Any],
    read: str = "warm",
    samples: int | None = None,
    others: Sequence[Reason] = (),
) -> dict[str, Any]:
    """``{valid, reasons, warnings, repeated, interference}``; each reason has its check, figure and bound.

    ``read``: of the files. ``samples``: of the data set; without, nobody looks whether they were distinct.
    ``others``: what else is against it. ``repeated``: the most samples of an epoch that were taken more than once.
    """
    reasons = [
        *others,
        *_enough(summary),
        *_finite(summary["loss"]),
        *_in_step(answers),
        *_files(answers, read),
        *_distinct(answers, samples),
        *interference.reasons(ledger),
    ]
    return {
        "valid": not reasons,
        "reasons": [reason.model_dump(exclude_none=True) for reason in reasons],
        "warnings": _warnings(summary, ledger),
        "repeated": max(
            (e.repeated for a in answers for e in a.epochs if e.repeated is not None), default=None
        ),
        "interference": ledger,
    }


def verdict_of(certificate: dict[str, Any]) -> Verdict:
    """Valid, disturbed or invalid, with every reason."""
    return Verdict.judged(Reason.model_validate(reason) for reason in certificate["reasons"])


def _enough(summary: dict[str, Any]) -> list[Reason]:
    steps = summary["synchronised"]["steps"]
    if steps >= LEAST_STEPS:
        return []
    text = (
        f"{steps} measured steps are too few (at least {LEAST_STEPS}): more data, rounds or a smaller batch"
    )
    return [Reason(check="steps", figure=float(steps), bound=float(LEAST_STEPS), text=text)]


def _finite(loss: dict[str, Any]) -> list[Reason]:
    where = loss["not_finite"]
    if where is None:
        return []
    text = (
        f"the loss is no finite number from step {where['step']} of the {where['timing']} epoch of round "
        f"{where['round']} on (rank {where['rank']})"
    )
    return [Reason(check="loss", text=text)]


def _in_step(answers: Sequence[Answer]) -> list[Reason]:
    counts = {answer.rank: sum(len(epoch.rows) for epoch in answer.epochs) for answer in answers}
    if len(set(counts.values())) > 1:
        text = f"ranks made different numbers of steps: {counts}"
        return [Reason(check="ranks_in_step", text=text)]
    first = answers[0]
    for other in answers[1:]:
        for ours, theirs in zip(first.parameters, other.parameters, strict=True):
            if ours is None or theirs is None:
                continue  # not finite: the loss says so
            difference = abs(ours - theirs) / max(abs(ours), abs(theirs), 1e-30)
            if difference > SAME_WEIGHTS_RATIO:
                text = (
                    f"the weights of rank {other.rank} differ from those of rank {first.rank} by {difference:.1e} "
                    f"of their sum (at most {SAME_WEIGHTS_RATIO:.0e}): the ranks do not have one network"
                )
                return [Reason(check="ranks_in_step", figure=difference, bound=SAME_WEIGHTS_RATIO, text=text)]
    return []


def _distinct(answers: Sequence[Answer], samples: int | None) -> list[Reason]:
    """An epoch takes each sample once, but for those that fill up the last ranks."""
    if samples is None:
        return []
    most = filled_up(samples, len(answers))
    for answer in answers:
        for epoch in answer.epochs:
            if epoch.repeated is not None and epoch.repeated > most:
                text = (
                    f"{epoch.repeated} sample(s) were taken more than once in the {epoch.kind} epoch of round "
                    f"{epoch.round} (at most {most}, which fill up {len(answers)} rank(s)): the ranks did not share "
                    "the data, and what is read again is in a cache"
                )
                return [Reason(check="distinct", figure=float(epoch.repeated), bound=float(most), text=text)]
    return []


def _files(answers: Sequence[Answer], read: str) -> list[Reason]:
    """Reads that were to be cold or warm: before each epoch the files must have left the memory, or lie in it."""
    looks = [epoch.resident_ratio for answer in answers for epoch in answer.epochs]
    ratios = [look for look in looks if look is not None]
    if read == "cold" and len(ratios) < len(looks):
        text = (
            "the kernel does not say which files lie in memory, so nobody knows whether cold reads were cold"
        )
        return [Reason(check="cold_reads", text=text)]
    if not ratios:
        return []
    most, least = max(ratios), min(ratios)
    if read == "cold" and most > RESIDENT_RATIO:
        text = (
            f"{most:.0%} of the files were still in memory at the start of an epoch with cold reads (at most "
            f"{RESIDENT_RATIO:.0%}): other processes hold them there, or their file system can't drop them"
        )
        return [Reason(check="cold_reads", figure=most, bound=RESIDENT_RATIO, text=text)]
    if read != "cold" and least < 1 - RESIDENT_RATIO:
        text = (
            f"{least:.0%} of the files were in memory at the start of an epoch with warm reads (at least "
            f"{1 - RESIDENT_RATIO:.0%}): there is too little memory for them, and their reads are of the disk"
        )
        return [Reason(check="warm_reads", figure=least, bound=1 - RESIDENT_RATIO, text=text)]
    return []


def _warnings(summary: dict[str, Any], ledger: dict[str, Any]) -> list[str]:
    warnings = [finding["text"] for finding in ledger["findings"] if not finding["quarantine"]]
    warnings += [f"not watched: {what}" for what in ledger["not_watched"]]
    timing, bare = summary["synchronised"], summary["bare"]
    explained = timing["explained_ratio"]
    if explained is not None and not EXPLAINED_RATIO[0] <= explained <= EXPLAINED_RATIO[1]:
        warnings.append(
            f"the phases add up to {explained:.1%} of the step; {timing['unexplained_ms']:.3f} ms of each step are "
            f"none of theirs, {timing['clocks_ms']:.3f} of it the time in which their clocks are read"
        )
    ratio = bare["instrumented_ratio"]
    if ratio is not None and ratio < INSTRUMENTED_RATIO:
        warnings.append(
            f"with instruments the run makes {ratio:.1%} of the samples/s that it makes without: the phases are those "
            "of a slower run"
        )
    return warnings
