"""The fields by which results are searched, sorted and tabulated: one list for CLI, API and Python."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError

Kind = Literal["text", "number", "time", "verdict", "any"]


@dataclass(frozen=True)
class Field:
    """``path`` in a result; ``run_path`` in a run, None where only a finished run has it."""

    name: str
    path: str
    kind: Kind
    help: str
    run_path: str | None = None
    aliases: tuple[str, ...] = ()

    def value(self, document: dict[str, Any]) -> Any:
        """Its value in a result as plain nested mappings, None if it is not there."""
        return value_at(document, self.path)


def _latency(name: str) -> Field:
    path = f"summary.e2e_latency_ms.{name}"
    return Field(f"{name}_ms", path, "number", f"{name} of the end-to-end latency, ms", aliases=(name,))


FIELDS: tuple[Field, ...] = (
    Field("run", "run_id", "text", "the run's id", "_id", ("run_id",)),
    Field("attempt", "attempt", "number", "the attempt, from 1"),
    Field("job", "job_id", "text", "the job's id", "job_id", ("job_id",)),
    Field("invocation", "invocation_id", "text", "the execution of a submission", "invocation_id"),
    Field("created", "created_at", "time", "when the result was written", "started_at"),
    Field("submission", "submission.name", "text", "the submission's name", "submission.name", ("name",)),
    Field("user", "submission.user", "text", "who submitted it", "submission.user"),
    Field("model", "model.name", "text", "the model", "job.model.name"),
    Field("model_version", "model.version", "number", "the model's version in the repository"),
    Field("framework", "model.framework", "text", "torch, tensorflow, sklearn, ..."),
    Field("precision", "model.precision", "text", "fp32, fp16, bf16, int8", "job.convert.precision"),
    Field("format", "format", "text", "the format that was served", "job.convert.format"),
    Field("backend", "backend.kind", "text", "the serving backend", "job.serve.backend"),
    Field("backend_version", "backend.version", "text", "its version"),
    Field("launcher", "backend.launcher", "text", "process or container", "job.serve.launcher"),
    Field("device", "device.kind", "text", "cpu or gpu"),
    Field("device_name", "device.name", "text", "the product's name"),
    Field(
        "batch", "load.batch_size", "number", "samples per request", "job.load.batch_size", ("batch_size",)
    ),
    Field("arrivals", "load.arrivals.kind", "text", "the arrival process", "job.load.arrivals.kind"),
    Field(
        "rate_rps",
        "load.arrivals.rate_rps",
        "number",
        "requested rate, 1/s",
        "job.load.arrivals.rate_rps",
        ("rate",),
    ),
    Field(
        "concurrency",
        "load.arrivals.concurrency",
        "number",
        "requests in flight (closed loop)",
        "job.load.arrivals.concurrency",
    ),
    Field("duration_s", "load.duration_s", "number", "seconds of load", "job.load.duration_s", ("duration",)),
    Field("protocol", "load.protocol", "text", "http or grpc", "job.load.protocol"),
    Field("network", "load.network", "text", "the network between client and server", "job.load.network"),
    _latency("mean"),
    _latency("p50"),
    _latency("p90"),
    _latency("p95"),
    _latency("p99"),
    _latency("p999"),
    Field(
        "throughput_rps",
        "summary.throughput_rps",
        "number",
        "answered requests per second",
        aliases=("throughput",),
    ),
    Field("samples_per_s", "summary.throughput_samples_per_s", "number", "answered samples per second"),
    Field(
        "goodput_rps",
        "summary.goodput_rps",
        "number",
        "those within the SLO, per second",
        aliases=("goodput",),
    ),
    Field(
        "accuracy", "summary.accuracy_ratio", "number", "share of right answers through the server, 0 to 1"
    ),
    Field("energy_j", "summary.energy.joule_per_request", "number", "joule per request", aliases=("energy",)),
    Field("energy_j_per_sample", "summary.energy.joule_per_sample", "number", "joule per sample"),
    Field("co2_g_per_1k", "summary.co2_g_per_1k", "number", "g of CO2 per 1000 requests", aliases=("co2",)),
    Field("co2_g_per_1k_samples", "summary.co2_g_per_1k_samples", "number", "g of CO2 per 1000 samples"),
    Field("cost_usd_per_1k", "summary.cost_usd_per_1k", "number", "USD per 1000 requests", aliases=("cost",)),
    Field("cost_usd_per_1k_samples", "summary.cost_usd_per_1k_samples", "number", "USD per 1000 samples"),
    Field(
        "verdict",
        "verdict",
        "verdict",
        "valid, invalid, failed, cancelled (running: not ended yet)",
        "verdict",
    ),
)
#: Dotted paths below these may be asked for as well.
OPEN = {
    "settings": "backend.settings",
    "load": "load",
    "resources": "summary.resources",
    "environment": "environment",
    "extensions": "extensions",
}
_BY_NAME = {name: field for field in FIELDS for name in (field.name, *field.aliases)}
_OPEN_PATH = re.compile(r"([a-z]+)((?:\.[A-Za-z0-9_-]{1,100}){1,8})")


def field(name: str) -> Field:
    """The field of that name (or alias, or a path below an open part); InputError lists what is allowed."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    if (match := _OPEN_PATH.fullmatch(name)) and match[1] in OPEN:
        return Field(name, OPEN[match[1]] + match[2], "any", "")
    below = ", ".join(f"{part}." for part in OPEN)
    raise unknown(name, FIELDS, f", and paths below {below} (for instance settings.threads)")


def unknown(name: str, known: Iterable[Field], more: str = "") -> InputError:
    """The error for a field that there is none of; it names the nearest and all that are allowed."""
    known = tuple(known)
    names = [name for f in known for name in (f.name, *f.aliases)]
    near = difflib.get_close_matches(name, [*names, "since", "until"], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return InputError(
        f"Unknown field {name[:60]!r}.{hint} Allowed: {', '.join(f.name for f in known)}, since, until{more}"
    )


def row(document: dict[str, Any], names: tuple[str, ...] | None = None) -> dict[str, Any]:
    """A result (plain nested mappings) as one flat row: field name -> value."""
    return {f.name: f.value(document) for f in (FIELDS if names is None else map(field, names))}
