"""The raw steps of a stored run, by rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training.diagnosis.observation import Steps
from inferbench_tasks.training.result import TrainingResult

if TYPE_CHECKING:
    import pyarrow as pa


def ranks_of(db: PerfDB, result: TrainingResult) -> list[Steps]:
    """The measured steps of the ``synchronised`` epochs, by rank and in the order of time; [] of a run without any.

    Raises PerfDBError where they can't be read.
    """
    import pyarrow
    import pyarrow.parquet

    if result.samples is None:
        return []
    return ranks_in(pyarrow.parquet.read_table(pyarrow.BufferReader(db.files.get(result.samples))))


def ranks_in(table: pa.Table) -> list[Steps]:
    """The same of a table of raw steps (``training.steps``)."""
    frame = table.to_pandas()
    frame = frame[frame["part"] == "measured"]
    if "timing" in frame:  # older results have one timing
        frame = frame[frame["timing"] == "synchronised"]
    numbers = frame.drop(columns=["part", "timing"], errors="ignore").sort_values(["rank", "round", "step"])
    return [
        {str(name): of[name].to_numpy(dtype=np.float64) for name in of.columns}
        for _, of in numbers.groupby("rank")
    ]
