"""Stored trainings as BenchmarkJade's table, which ``imported.table`` reads back as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from inferbench_tasks.contracts.spec import Spec
from inferbench_tasks.errors import InputError
from inferbench_tasks.training.fleet.rows import brought
from inferbench_tasks.training.imported.rows import PHASES
from inferbench_tasks.training.imported.table import COLUMNS, heading
from inferbench_tasks.training.job import OF_PROCESSES, DataSpec, DevicesSpec, LoaderSpec, TrainSpec
from inferbench_tasks.training.result import TrainingResult
from inferbench_tasks.training.stored_job import fields_of

_WORDS: Final = {"train": "Train", "inference": "Inference", "smooth_inference": "Smooth Inference"}
#: Blocks of a job, and what of each stands in the table itself, or makes a step neither more nor less work.
_BLOCKS: Final[Mapping[str, tuple[type[Spec], set[str]]]] = {
    "data": (DataSpec, {"kind", "path", "samples", "image_size"}),
    "loader": (LoaderSpec, {"workers"}),
    "train": (
        TrainSpec,
        {
            "benchmark", "batch_size", "precision", "max_steps", "warmup_steps", "rounds", "learning_rate", "momentum",
            "seed",
        },
    ),
    "devices": (DevicesSpec, {"count", "processes", "kind", "strategy"}),
}  # fmt: skip


def jade_table(results: Sequence[TrainingResult]) -> str:
    """Rows with BenchmarkJade's columns by its own definition, times in seconds.

    Its README has four digits behind the point; six are written, for a step of a small network takes less. A heading
    says what its columns do not, of which rows under one heading have the same: network, precision, batch, images, and
    settings that are not the usual ones. InputError for a run that did not measure the columns (``timing:
    [synchronised, jade]``), that does not count, or whose batch nobody knows.
    """
    head = " | ".join(name.title() for name in COLUMNS)
    lines: list[str] = []
    before = None
    for result in sorted(results, key=_headed):
        jade = result.summary.jade if result.summary else None
        if not result.verdict.valid:
            raise InputError(f"{result.run_id} is {result.verdict}: it has no place in a table", field="RUN")
        if jade is None or not jade["columns"]:
            why = jade["reason"] if jade else "it was run without `timing: [synchronised, jade]`"
            raise InputError(f"{result.run_id} has no columns of BenchmarkJade: {why}", field="RUN")
        if _headed(result) != before:
            before = _headed(result)
            lines += ["", f"### {before}", "", f"| {head} |", "|" + " - |" * len(COLUMNS)]
        lines.append(_row(result, jade["columns"]))
    return "\n".join(lines).lstrip() + "\n"


def _headed(result: TrainingResult) -> str:
    job = fields_of(result)
    train = job.get("train") or {}
    if not train.get("batch_size"):
        raise InputError(f"{result.run_id} was stored without its job: its batch is not known", field="RUN")
    return heading(
        result.model.name if result.model else "unknown",
        train.get("precision", "fp32"),
        train["batch_size"],
        result.model.image_size if result.model else None,
        _settings(job, result),
    )


def _settings(job: Mapping[str, Any], result: TrainingResult) -> list[str]:
    """``threads 2``: those that are not the usual ones, by their names. Several ranks have to exchange; what loader
    processes alone have is no setting of a run without them.
    """
    devices = job.get("devices") or {}
    settings = ["strategy ddp"] if _ranks(result) == 1 and devices.get("strategy") == "ddp" else []
    if brought(result):  # no field of a job: it read copies, on its own host's storage
        settings.append("brought")
    if _on_gpus(result) and devices.get("processes", 1) > 1:
        settings.append(f"processes {devices['processes']}")
    without: set[str] = set() if result.workers else set(OF_PROCESSES)
    for name, (block, known) in _BLOCKS.items():
        for field, about in block.model_fields.items():
            usual = about.get_default()
            value = (job.get(name) or {}).get(field, usual)
            if field not in known | without and value != usual:
                settings.append(field if value is True else f"{field} {value}")
    return sorted(settings)


def _ranks(result: TrainingResult) -> int:
    return result.engine.processes if result.engine else 1


def _on_gpus(result: TrainingResult) -> bool:
    return result.device is not None and result.device.kind == "gpu"


def _devices(result: TrainingResult) -> int:
    """GPUs that it was on, which several ranks may share; of a processor, whose cores they share, its ranks."""
    devices = fields_of(result).get("devices") or {}
    return int(devices.get("count", 1)) if _on_gpus(result) else _ranks(result)


def _row(result: TrainingResult, columns: Mapping[str, float]) -> str:
    device = result.device
    cells = [
        result.cluster or "this host",
        str(result.data.get("kind")),
        _WORDS[str(result.benchmark)],
        (device.name if device else None) or "cpu",
        str(_devices(result)),
        str(result.workers or 0),
        *(f"{columns[name]:.6f}" if name in columns else "-" for name in PHASES),
    ]
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"
