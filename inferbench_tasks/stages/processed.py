"""Part of ``generate``: samples that go through the submission's processors, on either side.

Both sides get the same tensors and the same answers from the same code; what differs is what a request
carries, and whose time it is.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from inferbench_tasks.artifacts.safe_files import inside
from inferbench_tasks.contracts.archive import write_archive
from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.contracts.handles import ModelArtifact, Processing, ProcessorStep, TensorSpec
from inferbench_tasks.contracts.models import ModelSource, Watch
from inferbench_tasks.formats.base import FORMATS, TOLERANCE_RATIO
from inferbench_tasks.processors.pipeline import RAW, Pipeline, joined
from inferbench_tasks.requests import prepare
from inferbench_tasks.requests.ragged import packed
from inferbench_tasks.requests.raw import raw_samples
from inferbench_tasks.requests.rows import require_rows
from inferbench_tasks.stages.base import StageInput
from inferbench_tasks.submission.processors import ProcessorSpec

#: Samples are processed one by one, as a user's requests are.
RAW_SPEC = TensorSpec(name=RAW, dtype="bytes", shape=())


def make(
    folder: Path,
    inp: StageInput,
    source: ModelSource,
    model: ModelArtifact,
    dataset: Dataset | None,
    base_dir: Path,
    watch: Watch,
) -> dict[str, Any]:
    """Write the requests of a submission with processors before the model; the facts of the cache's entry."""
    spec = inp.job.requests
    raw, labels = raw_samples(spec, dataset, base_dir, inp.job.traffic.seed)
    pipeline, steps = pipeline_of(inp, source, model, base_dir)
    parts: list[Arrays] = []
    spent: dict[str, list[int]] = {}
    for at in range(len(raw)):
        if at % 16 == 0:
            watch.step(at, len(raw), "processing the samples")
        arrays, took = pipeline.before(raw[at : at + 1])
        parts.append(arrays)
        for kind, ns in took.items():
            spent.setdefault(kind, []).append(ns)
    arrays = joined(parts)
    _check(arrays, model)
    predict = FORMATS.load(model.format)().open(model)
    if source.foreign and model.batch_size is None:
        require_rows(predict, arrays, inp.job.convert.tolerance_ratio or TOLERANCE_RATIO["fp32"])
    reference = prepare.answers(predict, arrays, watch, model.batch_size)
    prepare.write(folder, arrays, reference, labels)
    return {
        "samples": len(raw),
        "labelled": labels is not None,
        "dataset": dataset.name if dataset else "files",
        "processing": _finish(folder, inp, steps, pipeline, raw, reference, spent, model),
    }


def after_only(
    folder: Path,
    inp: StageInput,
    source: ModelSource,
    model: ModelArtifact,
    arrays: Arrays,
    reference: Arrays,
    base_dir: Path,
) -> dict[str, Any] | None:
    """The same for processors after the model only: requests carry tensors. None without any."""
    if inp.job.processors is None:
        return None
    pipeline, steps = pipeline_of(inp, source, model, base_dir)
    return _finish(folder, inp, steps, pipeline, arrays, reference, {}, model)


def pipeline_of(
    inp: StageInput, source: ModelSource, model: ModelArtifact, base_dir: Path
) -> tuple[Pipeline, dict[str, tuple[ProcessorStep, ...]]]:
    """The processors of a submission that has some, and their steps before and after the model."""
    spec = inp.job.processors
    assert spec is not None
    steps = {
        part: tuple(_resolved(step, source, base_dir) for step in getattr(spec, part))
        for part in ("before", "after")
    }
    return Pipeline(steps["before"], steps["after"], [i.name for i in model.inputs]), steps


def _resolved(step: ProcessorSpec, source: ModelSource, base_dir: Path) -> ProcessorStep:
    """Absolute paths; a tokenizer without one is the model's own, if it brings one."""
    settings = dict(step.settings)
    if isinstance(settings.get("path"), str):
        settings["path"] = str(inside(base_dir, settings["path"], "processors.settings.path"))
    elif step.kind == "tokenizer" and source.folder is not None:
        own = source.folder / "tokenizer.json"
        if own.is_file():
            settings["path"] = str(own)
    return ProcessorStep(kind=step.kind, settings=settings)


def _finish(
    folder: Path,
    inp: StageInput,
    steps: dict[str, tuple[ProcessorStep, ...]],
    pipeline: Pipeline,
    sent: Array | Arrays,
    reference: Arrays,
    spent: dict[str, list[int]],
    model: ModelArtifact,
) -> dict[str, Any]:
    """The answers after the last processor, and for the server's side what goes over the wire."""
    assert inp.job.processors is not None
    count = len(next(iter(reference.values())))
    rows = [
        pipeline.after({name: array[at : at + 1] for name, array in reference.items()}) for at in range(count)
    ]
    if inp.job.processors.side == "client":
        for _, took in rows:
            for kind, ns in took.items():
                spent.setdefault(kind, []).append(ns)
        # The first sample pays for imports: the median, not the mean.
        client_ms = {kind: median(each) / 1e6 for kind, each in spent.items()}
        processing = Processing(
            side="client", before=steps["before"], after=steps["after"], client_ms=client_ms
        )
        if not isinstance(sent, dict):
            write_archive(folder / "raw.npz", packed({RAW: sent}))
            processing = processing.model_copy(update={"raw_path": "raw.npz"})
        return processing.model_dump(mode="json")
    answers = {name: np.concatenate([row[name] for row, _ in rows]) for name in rows[0][0]}
    inputs = sent if isinstance(sent, dict) else {RAW: sent}
    write_archive(folder / "sent.npz", packed(inputs))
    write_archive(folder / "answered.npz", packed(answers))
    return Processing(
        side="server",
        before=steps["before"],
        after=steps["after"],
        sent_path="sent.npz",
        answered_path="answered.npz",
        sent=model.inputs if isinstance(sent, dict) else (RAW_SPEC,),
        answered=tuple(spec_of(name, array) for name, array in answers.items())
        if steps["after"]
        else model.outputs,
    ).model_dump(mode="json")


def spec_of(name: str, array: Array) -> TensorSpec:
    """What answers of that name look like, first axis = samples."""
    dtype = "bytes" if array.dtype.kind in "OSU" else array.dtype.name
    return TensorSpec(name=name, dtype=dtype, shape=array.shape[1:])


def _check(arrays: Arrays, model: ModelArtifact) -> None:
    from inferbench_tasks.backends.first_answer import check_requests

    check_requests(arrays, model)
