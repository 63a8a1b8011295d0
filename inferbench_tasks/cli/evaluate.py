"""``inferbench evaluate MODEL``: are a model's answers right? A submission is made of the options and run here."""

from __future__ import annotations

from typing import Any

import typer
import yaml

from inferbench_tasks.cli.made_submission import model_of, run_made
from inferbench_tasks.output import OutputFormat

app = typer.Typer()


@app.command()
def evaluate(
    model: str = typer.Argument(help="A model of the zoo, or a model file below the current folder."),
    dataset: str | None = typer.Option(
        None, "--dataset", help="As `datasets list` has it, or NAME@^1; the model's own without."
    ),
    path: str | None = typer.Option(
        None, "--path", help="Your data, below the current folder: for folder, table, arrays, coco, squad."
    ),
    split: str | None = typer.Option(
        None, "--split", help="A part of the data set by name: train, test; the usual one without."
    ),
    samples: int | None = typer.Option(None, "--samples", min=1, help="So many by chance; all without."),
    precision: list[str] = typer.Option(["fp32"], "--precision", help="fp32, fp16, bf16, int8; repeat it."),
    format: str = typer.Option("onnx", "--format", help="The format that is served."),
    backend: str = typer.Option("onnxruntime", "--backend", help="The serving backend."),
    concurrency: int = typer.Option(4, "--concurrency", min=1, help="Users who ask at the same time."),
    show: bool = typer.Option(False, "--show", help="Print the submission and run nothing."),
    inline: bool = typer.Option(False, "--inline", help="Run without Airflow."),
    output: OutputFormat = typer.Option(
        OutputFormat.table, "--output", "-o", help="How to print the results."
    ),
) -> None:
    """Ask every held-out sample once under a short load and once alone; accuracy beside latency, with intervals.

    Several precisions are compared sample by sample in the report. Exit code as of `inferbench run`.
    """
    text = submission(model, dataset, path, samples, precision, format, backend, concurrency, split)
    if show:
        typer.echo(text, nl=False)
        return
    run_made("evaluate", text, inline=inline, output=output)


def submission(
    model: str,
    dataset: str | None,
    path: str | None,
    samples: int | None,
    precision: list[str],
    format: str,
    backend: str,
    concurrency: int,
    split: str | None = None,
) -> str:
    """The submission's YAML; whoever reads it says what is wrong with it."""
    document: dict[str, Any] = {
        "name": "evaluate",
        **model_of(model),
        "convert": {"format": format, "precision": precision[0]},
        "serve": {"backend": backend, "threads": 1},
        "load": {
            "arrivals": {"kind": "closed_loop", "concurrency": concurrency},
            "duration_s": 5,
            "warmup_s": 1,
        },
        "evaluate": {
            name: value
            for name, value in (("dataset", dataset), ("path", path), ("split", split), ("samples", samples))
            if value is not None
        },
    }
    if len(precision) > 1:
        document["sweep"] = {"convert.precision": precision}
    return yaml.safe_dump(document, sort_keys=False)
