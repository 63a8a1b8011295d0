"""The raw steps of all ranks as one table: a row for each step of each rank's epochs with instruments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from inferbench_tasks.strangers_folder import opened
from inferbench_tasks.training.order import Answer
from inferbench_tasks.training.phases import PARTS

STEPS_FILE = "steps.parquet"


def table(answers: Sequence[Answer]) -> pa.Table:
    """Columns: rank, round, timing, those of the timings' rows (``part`` in words), loss; null where there is none."""
    rows: list[dict[str, object]] = []
    for answer in answers:
        for epoch in answer.epochs:
            for index, row in enumerate(epoch.rows):
                values: dict[str, object] = {
                    "rank": answer.rank,
                    "round": epoch.round,
                    "timing": epoch.kind,
                    **dict(zip(epoch.columns, row, strict=True)),
                    "loss": epoch.losses[index] if epoch.losses else None,
                }
                values["part"] = PARTS[int(str(values["part"]))]
                rows.append(values)
    names = list(dict.fromkeys(name for row in rows for name in row))
    kinds = {"timing": pa.string(), "part": pa.string(), "loss": pa.float64()}
    return pa.table(
        {name: pa.array([row.get(name) for row in rows], kinds.get(name, pa.int64())) for name in names}
    )


def write(answers: Sequence[Answer], path: Path) -> None:
    """The table as Parquet, whole or not at all."""
    import pyarrow.parquet as pq

    partial = path.with_suffix(".partial")
    with opened(partial, "wb") as file:  # in the ranks' folder, who may have put something else there
        pq.write_table(table(answers), file, compression="zstd")
    partial.replace(path)
