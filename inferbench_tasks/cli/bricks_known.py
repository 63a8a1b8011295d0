"""``inferbench bricks list|show|gaps``: what PerfDB knows of bricks."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError, StageError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, first_of, say

DEVICE = typer.Option("", "--device", help="Part of the processor's name.")
OPERATORS = typer.Option("", "--operators", help="Of the brick, such as Conv.")
MODEL = typer.Option("", "--model", help="One whose bricks they are.")
LIMIT = typer.Option(50, "--limit", min=1, max=10_000, help="The most rows.")
KEY = typer.Argument(..., metavar="KEY", help="A brick's key, or the unique start of it (8 digits at least).")
SAVE = typer.Option(
    None, "--save", metavar="FILE",
    help="Write its network there as ONNX too; its weights are noise that is drawn by the key.",
)  # fmt: skip
COVERAGE = typer.Option(False, "--devices", help="How much is known of which device instead.")


def list_bricks(
    device: str = DEVICE,
    operators: str = OPERATORS,
    model: str = MODEL,
    limit: int = LIMIT,
    devices: bool = COVERAGE,
    output: OutputFormat = OUTPUT,
) -> None:
    """List what submissions measured of bricks, the newest first; times in ms. Where a device has times of several
    hosts each says its host."""
    from inferbench_tasks.brick_jobs import queries
    from inferbench_tasks.perfdb.store import PerfDB

    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        rows = queries.devices(db) if devices else queries.listed(db, device, operators, model, limit + 1)
    rows = rows if devices else first_of(rows, limit)
    if output is OutputFormat.table:
        rows = [{**row, "key": row["key"][:12]} if "key" in row else row for row in rows]
        rows = [{name: value for name, value in row.items() if name not in _LONG} for row in rows]
    emit(rows, output)


_LONG = ("identity", "session", "setting_id")


def show(key: str = KEY, save: Path | None = SAVE, output: OutputFormat = OUTPUT) -> None:
    """Show all that is known of one brick: its shapes, the models that it is in, and its times by device."""
    from inferbench_tasks.brick_jobs import queries
    from inferbench_tasks.brick_jobs.known_bricks import network_of
    from inferbench_tasks.perfdb.store import PerfDB

    if save is not None and save.exists():
        raise InputError(f"{save} is there already; name another file", field="save")
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        found = queries.shown(db, key)
        network = None if save is None else network_of(db, found["key"])
    if save is not None and network is not None:
        _write(network, found["key"], save)
    if output is not OutputFormat.table:
        emit(found, output)
        return
    say(f"{found['key']}: {' > '.join(found['operators'])}")
    for line in _facts(found):
        say(line)
    # What was taken while the machine was disturbed is used by no prediction: it must not look like the others.
    shown = [name for name in queries.columns(found["results"])[2:] if name not in _LONG]
    emit(
        [
            {**{name: row[name] for name in shown}, "disturbed": bool(row["disturbed"])}
            for row in found["results"]
        ],
        output,
    )
    for of in found["models"]:
        say(f"in {of['model']}, batch {of['batch_size']}, G {of['granularity']}")


def _facts(found: Mapping[str, Any]) -> Iterator[str]:
    """What the brick is, where that is kept."""
    if found["inputs"] is None:
        yield "Its shapes are not known: it was measured before they were kept."
        return
    tensors = {name: ", ".join(map(_tensor, found[name])) for name in ("inputs", "outputs", "weights")}
    weights = f", with weights {tensors['weights']}" if tensors["weights"] else ""
    yield f"takes {tensors['inputs'] or 'nothing'}{weights}; gives {tensors['outputs']}"
    flops = "FLOP not counted" if found["flops"] is None else f"about {found['flops'] / 1e6:,.4g} MFLOP"
    yield f"{flops}, and about {found['bytes'] / 1e6:,.4g} MB moved in a run"
    if found["network"] is not None:
        yield f"its network, without weights: {found['network']['bytes']:,} bytes (--save FILE writes it)"
    elif found["no_network"]:
        yield f"its network is not kept: {found['no_network']}"


def _tensor(one: Mapping[str, Any]) -> str:
    return f"{one['dtype']}[{', '.join(map(str, one['shape']))}]"


def _write(network: bytes, key: str, to: Path) -> None:
    """Made in a folder of its own, by a process in the sandbox."""
    from inferbench_tasks.bricks.runnable import runnable

    with tempfile.TemporaryDirectory(prefix="inferbench-bricks-") as folder:
        try:
            for path in runnable(network, key, to.name, Path(folder)):
                shutil.copyfile(path, to.with_name(path.name))
        except OSError as error:
            raise StageError(f"{to} can't be written: {error.strerror}") from None


def gaps(device: str = DEVICE, output: OutputFormat = OUTPUT) -> None:
    """Show which models' bricks have no time on which device, or an old one, and what was not cut for it."""
    from inferbench_tasks.brick_jobs.ages import OLD_DAYS
    from inferbench_tasks.brick_jobs.gaps import gaps as gaps_of
    from inferbench_tasks.perfdb.store import PerfDB

    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        rows = gaps_of(db, device)
    emit(rows, output)
    if not rows and output is OutputFormat.table:
        say(
            "Nothing is missing: each model that was cut for a runtime was so for the instruction set of each device "
            f"that has times by it, and all of its bricks have one there that is at most {OLD_DAYS} days old."
        )
