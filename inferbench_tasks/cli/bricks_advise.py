"""``inferbench bricks advise``: which device for a model, which model for a task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.cli.bricks_options import BATCH, GRANULARITY, PRECISION, known_precision
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say

MODEL = typer.Option("", "--model", help="One that was cut: which device for it?")
TASK = typer.Option("", "--task", help="Such as image-classification: which model for it, on --device?")
DEVICE = typer.Option("", "--device", help="With --task: part of the processor's name.")
RUNTIME = typer.Option(
    "", "--runtime", help="By which alone, such as onnxruntime; else by all that have times."
)
SLO = typer.Option(None, "--slo-ms", help="How long a request may take in the mean.")
#: What the table leaves to ``-o json``; of requests of one sample also what is said of samples.
_LONG = ("view", "newest_at", "old")


def advise(
    model: str = MODEL,
    task: str = TASK,
    device: str = DEVICE,
    batch: int = BATCH,
    granularity: str = GRANULARITY,
    precision: str = PRECISION,
    runtime: str = RUNTIME,
    slo_ms: float | None = SLO,
    output: OutputFormat = OUTPUT,
) -> None:
    """Rank devices for a model, or models for a task, by latencies predicted from stored times.

    Nothing is run. What is mostly estimated is left out, and so is what is not calibrated where others are; where none
    is there are no probabilities. Times are means of one request by itself, of --batch-size samples.
    """
    from inferbench_tasks.brick_jobs.advice import in_words
    from inferbench_tasks.brick_jobs.advise import advised
    from inferbench_tasks.bricks.sequences import parse_granularity
    from inferbench_tasks.perfdb.store import PerfDB

    parse_granularity(granularity)
    known_precision(precision)
    if slo_ms is not None and not (math.isfinite(slo_ms) and slo_ms > 0):
        raise InputError("--slo-ms is a time above 0", field="slo_ms")
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        found = advised(db, model, task, device, batch, granularity, slo_ms, precision, runtime)
    if output is not OutputFormat.table:
        emit(found, output)
    for sentence in in_words(found):
        say(sentence)
    if output is OutputFormat.table and found["ranked"]:
        emit(found["ranked"], output, _columns(found["ranked"]))


def _columns(ranked: Sequence[Mapping[str, Any]]) -> list[str]:
    """Without those that no row has."""
    alike = all(row["batch_size"] == 1 for row in ranked)
    return [
        name
        for name in ranked[0]
        if name not in _LONG
        and not (alike and "samples" in name)
        and any(row[name] is not None for row in ranked)
    ]
