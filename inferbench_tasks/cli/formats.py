"""``inferbench formats``: the known model formats, and what converts to what at which precision."""

from __future__ import annotations

from typing import Any

import typer

from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.formats.route import possible_precisions, route, usable
from inferbench_tasks.output import OutputFormat, emit, say

app = typer.Typer()


@app.command()
def formats(
    output: OutputFormat = typer.Option(OutputFormat.table, "--output", "-o", help="table, json or yaml."),
) -> None:
    """Show what converts to what: a row per way, with its precisions and the backends that serve the result."""
    emit(rows(), output)


def rows() -> list[dict[str, Any]]:
    """One row per pair of formats that some way connects, fewest steps first within a source."""
    serving = _serving()
    table = []
    formats = usable(say)
    for source in formats:
        for target in formats:
            form = FORMATS.load(target)
            possible = form.servable and FORMATS.load(source).given
            precisions = possible_precisions(source, target) if possible else ()
            if not precisions:
                continue
            hops = route(source, target, precisions[0])
            table.append(
                {
                    "from": source,
                    "to": target,
                    "precisions": ", ".join(precisions),
                    "way": " -> ".join([source, *(hop.target for hop in hops)]),
                    "served by": ", ".join(serving.get(target, [])) or "-",
                    "here": form().unavailable() or "yes",
                }
            )
    return table


def _serving() -> dict[str, list[str]]:
    """Format -> the backends that serve it; a backend that can't be imported serves none."""
    kinds_by_format: dict[str, list[str]] = {}
    for kind in BACKENDS:
        try:
            formats = BACKENDS.told(kind, lambda backend: tuple(backend.formats))
        except InferBenchError as error:
            say(str(error))
            continue
        for form in formats:
            kinds_by_format.setdefault(form, []).append(kind)
    return kinds_by_format
