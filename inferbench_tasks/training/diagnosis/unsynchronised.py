"""Columns that time the launching of work instead of the work: faster than the device's datasheet allows, by the same
bound as of runs that were measured here (``diagnosis.runs.impossible``), or than the same pass where it was waited for.
"""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.catalogue import find_hardware
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.contradiction import log_of
from inferbench_tasks.training.imported.rows import SAME_WORK, Import, TableRow
from inferbench_tasks.training.peak import FEWER_PRODUCTS, device_flops, least_forward_s

#: Side of ImageNet's images, which tables without another one are of.
SIDE = 224
#: FLOP of one forward pass of one such image (a multiply-add is two), counted over the network's graph.
FORWARD_FLOP = {"resnet50": 2 * 4.089e9}
#: A sum of columns this near to inference's forward pass holds that pass.
SAME_RATIO = 0.1
#: A forward pass of smooth inference that is shorter by so much than that of inference is no chance.
_SHORT_RATIO = 0.5


def find(content: Import) -> Iterator[Cause]:
    """The forward passes of a table that took less than the least time of their work on their device, where fp32 may
    have been computed in TF32: nothing in a table says that it was not. And those of smooth inference on a GPU, behind
    which BenchmarkJade's loop waits for nothing, that are less than half as long as inference's, behind which it does.
    """
    impossible = [
        (row, seconds, batch, flop, peak)
        for row in content.rows
        if (seconds := row.forward_s)
        and (batch := _batch_size(row, content))
        and (flop := _flop(row, batch))
        and (peak := device_flops(row.device, row.precision, tf32_for_fp32=True))
        and (least_s := least_forward_s(row.device, row.precision, flop, tf32_for_fp32=True))
        and seconds < least_s
    ]
    possible = [row for row in content.rows if all(row is not other for other, *_ in impossible)]
    launched = [(row, beside) for row in possible if (beside := _waited_for(row, content.rows))]
    if not impossible and not launched:
        return
    evidence = [
        f"{row.source}: {row.label}: forward {seconds:.4f} s for {batch} images is {flop / seconds / 1e12:.0f} "
        f"TFLOP/s; the datasheet has {peak / 1e12:.1f}, of which algorithms that need fewer products make "
        f"{FEWER_PRODUCTS:g} times as much at most"
        for row, seconds, batch, flop, peak in impossible
    ]
    evidence += [
        f"{row.source}: {row.label}: forward {row.forward_s:.4f} s, where inference's forward on {beside.device} takes "
        f"{beside.forward_s:.4f} s at least ({beside.source})"
        for row, beside in launched
    ]
    for row in (*(row for row, *_ in impossible), *(row for row, _ in launched)):
        beside = _inference_beside(row, content.rows)
        if beside and beside.forward_s and abs(row.step_s / beside.forward_s - 1) <= SAME_RATIO:
            evidence.append(
                f"{row.source}: the columns' sum is {row.step_s:.4f} s, and inference's forward {beside.forward_s:.4f} "
                "s: the pass is in the next step's loading"
            )
    yield Cause(
        rule="unsynchronised",
        kind="wrong",
        sentence=f"The forward times of {len(impossible) + len(launched)} row(s) are those of launching the work: "
        "nothing waited for the device before the clock was read. What the pass took stands in their column 'loading'.",
        evidence=evidence,
        remedy="Time with the device synchronised at every border (timing: synchronised), or by its own events.",
    )


def _network(name: str | None) -> str:
    return (name or "").lower().replace(" ", "").replace("-", "").replace("_", "")


def _batch_size(row: TableRow, content: Import) -> int | None:
    """That of the row's own log, else what its heading says, else of all logs; None where these differ."""
    own = log_of(row, content.logs)
    return (own.batch_size if own else None) or row.batch_size or content.batch_size


def _flop(row: TableRow, batch_size: int) -> float | None:
    """Of a forward pass of a batch; None of a network whose work is not known, and of images of another size."""
    flop = FORWARD_FLOP.get(_network(row.model)) if row.image_size in (None, SIDE) else None
    return flop * batch_size if flop else None


def _waited_for(row: TableRow, rows: list[TableRow]) -> TableRow | None:
    """The shortest forward pass of inference of the same work on that GPU, if smooth inference's is far below it."""
    sheet = find_hardware(row.device)
    if row.benchmark != "smooth_inference" or not row.forward_s or sheet is None or sheet.kind != "gpu":
        return None
    same = (*SAME_WORK, "device")
    shortest = min(
        (
            other
            for other in rows
            if other.benchmark == "inference"
            and other.forward_s
            and all(getattr(other, name) == getattr(row, name) for name in same)
        ),
        key=lambda other: other.forward_s or 0.0,
        default=None,
    )
    if shortest is None or row.forward_s >= _SHORT_RATIO * (shortest.forward_s or 0.0):
        return None
    return shortest


def _inference_beside(row: TableRow, rows: list[TableRow]) -> TableRow | None:
    """Inference of the same devices and data on one device, where the sum of smooth inference can be compared."""
    if row.devices != 1 or row.benchmark != "smooth_inference":
        return None
    same = (*SAME_WORK, "cluster", "data", "device", "devices")
    return next(
        (
            other
            for other in rows
            if other.benchmark == "inference" and all(getattr(other, n) == getattr(row, n) for n in same)
        ),
        None,
    )
