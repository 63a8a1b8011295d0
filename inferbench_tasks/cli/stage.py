"""``inferbench stage``: one stage by itself, on JSON input."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OutputFormat, emit
from inferbench_tasks.pipelines.base import PIPELINES, StageEntry
from inferbench_tasks.problem import field_problems
from inferbench_tasks.running.perform import perform
from inferbench_tasks.submission.base import DEFAULT_KIND

app = typer.Typer()


def stages_of(kind: str) -> dict[str, StageEntry]:
    """The stages of a kind of submission, by name."""
    return {entry.name: entry for entry in PIPELINES.load(kind, "--kind").entries}


@app.command()
def stage(
    name: str = typer.Argument(..., metavar="NAME", help=f"One of: {', '.join(stages_of(DEFAULT_KIND))}."),
    input_: str | None = typer.Option(
        None, "--input", "-i", metavar="FILE", help="The stage's input as JSON; - for standard input."
    ),
    schema: bool = typer.Option(False, "--schema", help="Print the JSON schema of the stage's input."),
    kind: str | None = typer.Option(
        None, metavar="KIND", help="The kind of submission that it is of [the job's own, else serving]."
    ),
    output: OutputFormat = typer.Option(OutputFormat.json, "--output", "-o", help="table, json or yaml."),
) -> None:
    """Run one stage and print its output.

    The input has run_id, job_id and job (a submission without its sweep), and the outputs of the stages
    it needs, each under its name. A missing output of a stage that needs no device (generate, convert) is
    made first, so that `stage serve` starts a server from no more than a job. A server started by `serve`
    stays up until `stage release` gets what `serve` printed.
    """
    values = {} if input_ is None else _read(input_)
    stages = stages_of(kind or _kind_of(values))
    if name not in stages:
        raise InputError(f"Unknown stage {name!r}; known: {', '.join(stages)}")
    if schema:
        emit(importlib.import_module(stages[name].module).Input.model_json_schema(), output)
        return
    if input_ is None:
        raise InputError(f"`inferbench stage {name}` needs --input FILE (or - for standard input)")
    emit(run_stage(stages, name, values), output)


def _kind_of(values: dict[str, Any]) -> str:
    job = values.get("job")
    return str(job.get("kind", DEFAULT_KIND)) if isinstance(job, dict) else DEFAULT_KIND


def run_stage(stages: dict[str, StageEntry], name: str, fields_by_name: dict[str, Any]) -> dict[str, Any]:
    """Run a stage on its input; the stages without a device that it needs come first where theirs is missing."""
    from inferbench_tasks.stages.base import Context

    last = ""

    def show(amount: float, total: float | None, text: str) -> None:
        nonlocal last
        if text != last:
            last = text
            print(f"{name}: {text}", file=sys.stderr)

    context = Context(
        data_dir=settings.writable(settings.data_dir()),
        perfdb_uri=settings.perfdb_uri(),
        base_dir=Path(fields_by_name.pop("base_dir", Path.cwd())),
        progress=show,
    )
    module = importlib.import_module(stages[name].module)
    for earlier in stages[name].facts.needs:
        if (
            earlier in module.Input.model_fields
            and earlier not in fields_by_name
            and not stages[earlier].facts.leased
        ):
            fields = importlib.import_module(stages[earlier].module).Input.model_fields
            needed = {k: v for k, v in fields_by_name.items() if k in fields}
            fields_by_name[earlier] = run_stage(stages, earlier, needed)
    try:
        inp = module.Input.model_validate(fields_by_name)
    except ValidationError as error:
        problems = "\n".join(f"  {problem}" for problem in field_problems(error, "input"))
        raise InputError(f"The input of stage {name} is not valid:\n{problems}") from error
    result: dict[str, Any] = perform(module, inp, context).model_dump(mode="json")
    return result


def _read(source: str) -> dict[str, Any]:
    import orjson

    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        value = orjson.loads(data)
    except OSError as error:
        raise InputError(f"{source} can't be read: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise InputError(f"{source} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{source} holds a {type(value).__name__}; a JSON object is needed")
    return value
