"""``inferbench links``: the network between two hosts, measured from one of them."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.cluster.links import Links
from inferbench_tasks.contracts.link import LinkClock, LinkEnd, MeasuredLink
from inferbench_tasks.errors import LoadError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB

app = typer.Typer(no_args_is_help=True, help="The network between two hosts: round trips, rates, clocks.")


@app.command()
def listen(
    address: str = typer.Option(help="The address of this host that the other one reaches."),
    to: Path = typer.Option(metavar="FILE", help="A new file, mode 600, for the other host: it counts once."),
    port: int = typer.Option(0, min=0, max=65535, help="0: one that is free."),
    wait_s: float = typer.Option(3600.0, "--wait", min=1, help="Seconds until it gives up."),
) -> None:
    """Wait on this host to be measured, once: `links measure FILE` or `load run --link FILE` on the other.

    Whoever does not know the secret of the file is let go; what is said is not encrypted, and holds nothing but moments
    and zeros. Let nobody but that host to the port.
    """
    from inferbench_tasks.networks.links.far_side import FarSide

    me = own_end()
    with FarSide(address, port, me.host, me.home) as far:
        far.invitation.write(to)
        place = f"{far.invitation.address} port {far.invitation.port}"
        say(f"waiting on {place}; bring {to} to the other host, by a way that nobody else can read")
        try:
            peer = far.serve(wait_s)
        except ConnectionError as error:
            raise LoadError(str(error)) from error
        finally:
            to.unlink(missing_ok=True)
    if peer is None:
        raise LoadError(f"Nobody who knows the secret came to {place} within {wait_s:g} s.")
    say(f"measured by {peer}")


@app.command()
def measure(
    link: str = typer.Argument(
        metavar="FILE", help="That `links listen --to` wrote on the other host; - reads it."
    ),
    streams: bool = typer.Option(True, help="Also the rates, by a second of TCP each way."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Measure the way to the host that wrote the file, and back; the figures go to PerfDB too, where there is one."""
    from inferbench_tasks.networks.links.invitation import Invitation
    from inferbench_tasks.networks.links.measure import measure as measured
    from inferbench_tasks.networks.links.near_side import NearSide

    with NearSide(Invitation.read(link)) as near:
        found = measured(near, own_end(), streams=streams).link
    _store(found)
    emit(found if output is not OutputFormat.table else [row(found)], output)


@app.command("list")
def list_(output: OutputFormat = OUTPUT) -> None:
    """The links of the cluster as they were measured last; JSON has all of each."""
    data_dir = settings.data_dir()
    if settings.perfdb_uri() is None and not embedded.status(data_dir)["running"]:
        say("PerfDB is not running: no links to show.")
        return
    with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
        links = Links(db).all()
    if output is OutputFormat.table:
        emit([{**row(link), "measured": f"{age_s:,.0f} s ago"} for link, age_s in links], output)
    else:
        emit([{**link.model_dump(mode="json"), "age_s": age_s} for link, age_s in links], output)


def own_end() -> LinkEnd:
    """This host; its address is that of each connection."""
    home = settings.home_id(settings.data_dir())
    return LinkEnd(host=socket.gethostname(), home=home, address="", boot_id=settings.boot_id())


def row(link: MeasuredLink) -> dict[str, Any]:
    """A link in one line."""
    return {
        "from": f"{link.near.host} {link.near.address}",
        "to": f"{link.far.host} {link.far.address}",
        "round_trip_ms": _ms(link.round_trip.p50_ms),
        "p99_ms": _ms(link.round_trip.p99_ms),
        "up_mbit_s": _rate(link.up_mbit_s),
        "down_mbit_s": _rate(link.down_mbit_s),
        "far_clock": _clock(link.clock),
    }


def _ms(value: float | None) -> str | None:
    return None if value is None else f"{value:,.3f}"


def _rate(value: float | None) -> str | None:
    return None if value is None else f"{value:,.1f}"


def _clock(clock: LinkClock) -> str:
    if clock.ahead_s is None or clock.error_s is None:
        return f"not known: {clock.reason}"
    return f"{clock.ahead_s * 1e3:+,.3f} ± {clock.error_s * 1e3:,.3f} ms"


def _store(link: MeasuredLink) -> None:
    data_dir = settings.data_dir()
    if settings.perfdb_uri() is None and not embedded.status(data_dir)["running"]:
        say(
            "not stored: no PerfDB is named here (INFERBENCH_PERFDB_URI), and none runs in this data directory"
        )
        return
    with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
        Links(db).tell(link)
