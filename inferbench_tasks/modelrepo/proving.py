"""Proof that a model whose batch was made free answers as the file that it was made of, within its batch and beyond."""

from __future__ import annotations

from collections.abc import Callable

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.formats.base import Predict
from inferbench_tasks.formats.calls import by_calls
from inferbench_tasks.modelrepo import loudness

PROVED_AT = (1, 2, 7)
#: Of inputs and answers together, 128 MiB of floats: what a batch beyond a large one of large samples may have.
MOST_VALUES = 2**25


def batches(batch: int) -> tuple[int, ...]:
    """Some, and one of more than two calls of the file: what cuts off at its batch is right up to it."""
    return (*PROVED_AT, 2 * batch + 1) if 2 * batch + 1 > max(PROVED_AT) else PROVED_AT


def freed_note(batch: int) -> str:
    """What was done, in words."""
    return f"the batch of {batch} was made free, and proved at batch {', '.join(map(str, batches(batch)))}"


def proof(
    whole: Predict,
    freed: Predict,
    noise: Callable[[int], Arrays],
    batch: int,
    differs: Callable[[Arrays, Arrays], str | None],
    tolerance_ratio: float,
) -> str | None:
    """None where ``freed`` answers made-up samples as ``whole`` does, ``batch`` in each call; else what differs.

    ``noise``: so many samples; ``differs``: how one answer is not the other, which is right.
    """
    answer: Arrays = {}
    for rows in batches(batch):
        values = sum(array[:1].size for array in [*noise(1).values(), *answer.values()]) * rows
        if rows > max(PROVED_AT) and values > MOST_VALUES:
            return (
                f"a proof at batch {rows}, beyond it, would take {values:,} values; {MOST_VALUES:,} are tried"
            )
        samples = noise(rows)
        try:
            answer = freed(samples)
            reason = differs(answer, by_calls(whole, samples, batch))
        except Exception as error:  # noqa: BLE001 - whatever a runtime raises is a reason
            reason = " ".join(str(error).split())[-300:]
        if reason:
            return f"at batch {rows} {reason}"
    return loudness.mixes(freed, noise(len(loudness.POWERS)), tolerance_ratio)
