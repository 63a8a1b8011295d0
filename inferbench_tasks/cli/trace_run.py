"""``inferbench trace run MODEL``: where a request's time goes. A submission is made of the options and run here."""

from __future__ import annotations

from typing import Any

import typer
import yaml

from inferbench_tasks.cli.made_submission import model_of, run_made
from inferbench_tasks.output import OutputFormat


def run(
    model: str = typer.Argument(help="A model of the zoo, or a model file below the current folder."),
    stack: list[str] = typer.Option(
        [],
        "--stack",
        help="What serves, by its manifest, such as openvino@^1; repeat it. In place of the two below.",
    ),
    format: str = typer.Option("onnx", "--format", help="The format that is served."),
    backend: str = typer.Option("onnxruntime", "--backend", help="The serving backend."),
    requests: int | None = typer.Option(
        None, "--requests", min=1, help="So many are asked, one by one [30]."
    ),
    rounds: int | None = typer.Option(
        None, "--rounds", min=1, help="How often, each time by servers of their own [3]."
    ),
    batch_size: int | None = typer.Option(
        None, "--batch-size", min=1, help="Samples in each [1, or the model's own batch]."
    ),
    deepest: str | None = typer.Option(
        None,
        "--deepest",
        help="model, framework, layer or library; down to layers where the backend tells of them.",
    ),
    show: bool = typer.Option(False, "--show", help="Print the submission and run nothing."),
    inline: bool = typer.Option(False, "--inline", help="Run without Airflow."),
    output: OutputFormat = typer.Option(
        OutputFormat.table, "--output", "-o", help="How to print the results."
    ),
) -> None:
    """Ask a few requests one by one, with the instruments of each level on in turns.

    Several stacks are set against each other in the report, layer by layer. Then: `inferbench trace show latest`.
    Exit code as of `inferbench run`.
    """
    asked = {"requests": requests, "rounds": rounds, "batch_size": batch_size, "deepest": deepest}
    text = submission(model, stack, format, backend, {k: v for k, v in asked.items() if v is not None})
    if show:
        typer.echo(text, nl=False)
        return
    run_made("trace", text, inline=inline, output=output)


def submission(model: str, stacks: list[str], format: str, backend: str, asked: dict[str, Any]) -> str:
    """The submission's YAML; whoever reads it says what is wrong with it. ``asked``: its block ``trace``."""
    document: dict[str, Any] = {"name": "trace", **model_of(model), "serve": {"threads": 1}}
    if stacks:
        document["stack"] = stacks[0]
    else:
        document["convert"] = {"format": format}
        document["serve"]["backend"] = backend
    document["trace"] = asked
    if len(stacks) > 1:
        document["sweep"] = {"stack": stacks}
    return yaml.safe_dump(document, sort_keys=False)
