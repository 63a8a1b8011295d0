"""The fields by which results are searched, sorted and tabulated, in CLI, API and Python: settings, and the figures
of the table (``inferbench_tasks.figures``)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES

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
    #: Only runs whose answers are streams of tokens have it; it stands in no row and no table of others.
    streamed: bool = False

    def value(self, document: dict[str, Any]) -> Any:
        """Its value in a result as plain nested mappings, None if it is not there."""
        return value_at(document, self.path)


SETTINGS: tuple[Field, ...] = (
    Field("run", "run_id", "text", "the run's id", "_id", ("run_id",)),
    Field("attempt", "attempt", "number", "the attempt, from 1"),
    Field("job", "job_id", "text", "the job's id", "job_id", ("job_id",)),
    Field("invocation", "invocation_id", "text", "the execution of a submission", "invocation_id"),
    Field("created", "created_at", "time", "when the result was written", "started_at"),
    Field("submission", "submission.name", "text", "the submission's name", "submission.name", ("name",)),
    Field("user", "submission.user", "text", "who submitted it, as the submission says", "submission.user"),
    Field("login", "submission.login", "text", "the login that started it", "submission.login"),
    Field("model", "model.name", "text", "the model", "job.model.name"),
    Field("task", "model.task", "text", "what the model does: image-classification, ..."),
    Field("dataset", "model.dataset", "text", "the data set that it was trained for"),
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
)
VERDICT = Field(
    "verdict",
    "verdict",
    "verdict",
    "valid, disturbed, invalid, failed, cancelled (running: not ended yet)",
    "verdict",
)
#: Dotted paths below these may be asked for as well.
OPEN = {
    "settings": "backend.settings",
    "load": "load",
    "resources": "summary.resources",
    "energy": "summary.energy",
    "carbon": "summary.carbon",
    "environment": "environment",
    "extensions": "extensions",
}
_OPEN_PATH = re.compile(r"([a-z]+)((?:\.[A-Za-z0-9_-]{1,100}){1,8})")


_OTHERS = {name: field for field in (*SETTINGS, VERDICT) for name in (field.name, *field.aliases)}


def of_figure(figure: Figure) -> Field:
    """A figure as a field of results."""
    return Field(
        figure.name,
        figure.field_path,
        "number",
        figure.meaning,
        aliases=figure.aliases,
        streamed=figure.streamed,
    )


@cache
def all_fields() -> tuple[Field, ...]:
    """What was asked for and ran, then every figure, then the verdict.

    A third party's figure that took the name of one of the others is left out: nobody could ask for it.
    """
    figures = [figure for figure in FIGURES.values() if figure.name not in _OTHERS]
    return (*SETTINGS, *map(of_figure, figures), VERDICT)


def field(name: str) -> Field:
    """The field of that name (or alias, or a path below an open part); InputError lists what is allowed."""
    if name in _OTHERS:
        return _OTHERS[name]
    if name in FIGURES:
        return of_figure(FIGURES[name])
    if (match := _OPEN_PATH.fullmatch(name)) and match[1] in OPEN:
        return Field(name, OPEN[match[1]] + match[2], "any", "")
    below = ", ".join(f"{part}." for part in OPEN)
    raise unknown(name, all_fields(), f", and paths below {below} (for instance settings.threads)")


def unknown(name: str, fields: Iterable[Field], more: str = "") -> InputError:
    """The error for a field that there is none of; it names the nearest and all that are allowed."""
    fields = tuple(fields)
    names = [name for f in fields for name in (f.name, *f.aliases)]
    near = difflib.get_close_matches(name, [*names, "since", "until"], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return InputError(
        f"Unknown field {name[:60]!r}.{hint} Allowed: {', '.join(f.name for f in fields)}, since, until{more}"
    )


def row(document: dict[str, Any], names: tuple[str, ...] | None = None) -> dict[str, Any]:
    """A result (plain nested mappings) as one flat row: field name -> value."""
    if names is not None:
        return {f.name: f.value(document) for f in map(field, names)}
    streams = bool(value_at(document, "summary.tokens"))
    return {f.name: f.value(document) for f in all_fields() if streams or not f.streamed}


def columns_of(rows: Iterable[dict[str, Any]]) -> list[Field]:
    """The fields of a table of such rows; those of streams of tokens only where a row has them."""
    names = {name for row in rows for name in row}
    return [f for f in all_fields() if not f.streamed or f.name in names]
