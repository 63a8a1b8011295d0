"""``inferbench backends``: the known serving backends, plugins included."""

from __future__ import annotations

from functools import partial
from typing import Any

import typer

from inferbench_tasks.backends.base import BACKENDS, Backend
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.output import OutputFormat, emit

app = typer.Typer()


@app.command()
def backends(
    output: OutputFormat = typer.Option(OutputFormat.table, "--output", "-o", help="table, json or yaml."),
) -> None:
    """List the serving backends: what each serves and speaks, and whether it can run here."""
    emit([row(kind) for kind in BACKENDS], output)


def row(kind: str) -> dict[str, Any]:
    """One backend's card. ``here`` is "yes", or for each launcher why not."""
    origin = BACKENDS.origin(kind)
    try:
        card = BACKENDS.told(kind, partial(_card, kind))
    except InferBenchError as error:  # one broken plugin hides no other backend
        return {
            "backend": kind, "formats": "", "protocols": "", "launchers": "", "devices": "", "batching": None,
            "here": f"no: {error}", "origin": origin,
        }  # fmt: skip
    return {**card, "origin": origin}


def _card(kind: str, backend: type[Backend]) -> dict[str, Any]:
    reasons = {launcher: reason_against(kind, launcher) for launcher in backend.launchers}
    against = [f"{launcher}: {reason}" for launcher, reason in reasons.items() if reason]
    possible = [launcher for launcher, reason in reasons.items() if not reason]
    return {
        "backend": kind,
        "formats": ", ".join(backend.formats),
        "protocols": ", ".join(backend.protocols),
        "launchers": ", ".join(backend.launchers),
        "devices": ", ".join(backend.devices),
        "batching": backend.batching,
        "here": f"yes ({', '.join(possible)})" if possible else f"no: {'; '.join(against)}",
    }


def reason_against(kind: str, launcher: str) -> str | None:
    """Why a backend can't run here by a launcher; None if it can."""
    from inferbench_tasks.launchers.base import LAUNCHERS

    return LAUNCHERS.load(launcher)().unavailable() or BACKENDS.load(kind).unavailable(launcher)
