"""``inferbench training fleet``: which devices are slower than their kind."""

from __future__ import annotations

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, safe, say
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training.fleet.outliers import FALSE_ALARMS, LEAST_OTHERS


def fleet(
    submission: str = typer.Option("", "--submission", help="Runs of this submission only."),
    cluster: str = typer.Option("", "--cluster", help="On this cluster only."),
    rate: float = typer.Option(
        FALSE_ALARMS,
        "--false-alarms",
        min=1e-6,
        max=0.5,
        help="Of fleets with equal devices so many have one named.",
    ),
    quarantine: bool = typer.Option(
        False, "--quarantine", help="Have the workers of those that are named quarantine them."
    ),
    pardon: str = typer.Option("", "--pardon", metavar="DEVICE", help="Take back what was said of a device."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Name the devices that are slower than their kind, by valid runs of the same job on each of them.

    A quarantined device gets no job until it is pardoned, or its worker is started again.
    """
    from inferbench_tasks.cluster.store import Cluster
    from inferbench_tasks.training.fleet.rows import fleets, lines
    from inferbench_tasks.training.listing import listed

    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        if pardon:
            if not Cluster(db).accuse(pardon, ""):
                raise InputError(
                    f"there is no device {pardon!r}; `inferbench status` shows them", field="--pardon"
                )
            say(f"{pardon}: its worker looks at it by its own checks again")
            return
        found = fleets(listed(db, {"submission": submission, "cluster": cluster}), rate)
        if not found:
            raise InputError(
                "no job has valid runs on two devices of a kind; submit one to a system with several workers "
                "(`inferbench submit`) until each device had it"
            )
        if quarantine:
            for one in found:
                for slow in one.slow:
                    reason = f"slower than its kind: {slow.ratio:.2f} times the others' step (training fleet)"
                    known = Cluster(db).accuse(slow.device, reason)
                    say(f"{slow.device}: {reason if known else 'is not registered any more'}")
    rows = [line for one in found for line in lines(one)]
    emit(rows, output)
    if output is OutputFormat.table:
        few = [one for one in found if not one.judged]
        if few:
            typer.echo(
                safe(f"{len(few)} job(s) have fewer than {LEAST_OTHERS + 1} devices of a kind: no baseline.")
            )
        typer.echo(f"Named at a rate of false alarms of {rate:.2%} of fleets with equal devices.")
