"""Part of ``generate``: samples of ``evaluate`` as the server's own processors take them, as files and texts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.archive import write_archive
from inferbench_tasks.contracts.handles import ModelArtifact, Processing, ProcessorStep
from inferbench_tasks.errors import InputError
from inferbench_tasks.processors.pipeline import RAW
from inferbench_tasks.requests.ragged import objects, packed
from inferbench_tasks.stages.processed import RAW_SPEC


def write(
    folder: Path, rows: Iterable[Any], before: tuple[ProcessorStep, ...], model: ModelArtifact
) -> dict[str, Any]:
    """Write what requests carry, a row for each sample; what the cache's entry says of it (``Processing``).

    InputError for samples that can't be sent as they are, and where the size of an answer follows what is asked: the
    server's processors fill a text up to the longest of its request, ours here to the longest of all.
    """
    if loose := [spec.name for spec in model.outputs if any(size < 0 for size in spec.shape)]:
        raise InputError(
            f"output {loose[0]} of {model.name} is as large as what is asked at once, so that its answers in the "
            "server have other sizes than the source model's; use side: client",
            field="processors.side",
        )
    items = list(rows)
    if strange := [type(row).__name__ for row in items if not isinstance(row, bytes | str)]:
        raise InputError(
            f"samples of the data set are {strange[0]}, and no files or texts that a request could carry; use side: "
            "client",
            field="processors.side",
        )
    write_archive(folder / "sent.npz", packed({RAW: objects(items)}))
    sent = Processing(
        side="server", before=before, sent_path="sent.npz", sent=(RAW_SPEC,), answered=model.outputs
    )
    return sent.model_dump(mode="json")
