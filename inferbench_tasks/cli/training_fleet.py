"""``inferbench training fleet``: which devices are slower than their kind."""

from __future__ import annotations

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError, StageError
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
    run: bool = typer.Option(
        False,
        "--run",
        help="First run a short epoch on every device of the running system, and wait for all of them.",
    ),
    links: bool = typer.Option(
        False, "--links", help="With --run: on pairs of a host's devices and on all of them together, too."
    ),
    repeat: int = typer.Option(1, "--repeat", min=1, max=20, help="With --run: so often on each."),
    device: str = typer.Option("", "--device", metavar="DEVICE", help="The history of one device instead."),
    url: str | None = typer.Option(None, help="Of the system [the local one of the data directory]."),
    user: str = typer.Option("admin", help="Login; its password comes from INFERBENCH_PASSWORD with --url."),
    pardon: str = typer.Option("", "--pardon", metavar="DEVICE", help="Take back what was said of a device."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Name the devices that are slower than their kind, by valid runs of the same job on each of them; and groups
    of devices that are slow together, for their links.

    A quarantined device gets no job until it is pardoned, or its worker is started again.
    """
    from inferbench_tasks.cluster.store import Cluster
    from inferbench_tasks.training.fleet.rows import alone, fleets, history, lines
    from inferbench_tasks.training.listing import listed

    if (links or repeat > 1) and not run:
        raise InputError("--links and --repeat go with --run", field="--links" if links else "--repeat")
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        if pardon:
            if not Cluster(db).accuse(pardon, ""):
                raise InputError(
                    f"there is no device {pardon!r}; `inferbench status` shows them", field="--pardon"
                )
            say(f"{pardon}: its worker looks at it by its own checks again")
            return
        if run:
            from inferbench_tasks.cli.training_fleet_run import run_on_all

            run_on_all(db, cluster=cluster, links=links, repeat=repeat, url=url, user=user)
        results = listed(db, {"submission": submission, "cluster": cluster})
        if device:
            rows = history(results, device)
            if not rows:
                raise InputError(f"no training ran on a device {device!r} that was leased", field="--device")
            emit(rows, output)
            return
        found = fleets(results, rate)
        if not found and run:
            raise StageError(
                "the epochs that ran are valid on less than two devices of a kind: see their verdicts"
            )
        if not found:
            raise InputError(
                "no job has valid runs on two devices of a kind; `inferbench training fleet --run` runs one on each "
                "device of a running system"
            )
        if quarantine:
            for one in (fleet for fleet in found if fleet.size == 1):
                for slow in one.slow:
                    reason = f"slower than its kind: {slow.ratio:.2f} times the others' step (training fleet)"
                    known = Cluster(db).accuse(slow.device, reason)
                    say(f"{slow.device}: {reason if known else 'is not registered any more'}")
    rows = [line for one in found for line in lines(one, alone(found))]
    emit(rows, output)
    if output is OutputFormat.table:
        few = [one for one in found if not one.judged]
        if few:
            typer.echo(
                safe(
                    f"{len(few)} job(s) have fewer than {LEAST_OTHERS + 1} devices or groups of a kind: no baseline."
                )
            )
        typer.echo(f"Named at a rate of false alarms of {rate:.2%} of fleets with equal devices.")
