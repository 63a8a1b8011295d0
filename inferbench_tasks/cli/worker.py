"""``inferbench worker``: serve devices of this machine."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from datetime import datetime
from pathlib import Path

import typer

from inferbench_tasks import extras, settings
from inferbench_tasks.cluster.device import LACKS, TELLS
from inferbench_tasks.cluster.host import CacheUse, FrameworkVersion
from inferbench_tasks.cluster.hosts import Hosts
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.cluster.versions import own
from inferbench_tasks.errors import InputError, StorageError
from inferbench_tasks.manifests.built_in.frameworks import versions_here
from inferbench_tasks.output import say
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.joining.leader import Leader
from inferbench_tasks.provider.joining.token_source import TOKEN, read_token
from inferbench_tasks.provider.joining.tokens import Secret
from inferbench_tasks.provider.joining.worker_environment import JOINED_UNTIL, environment
from inferbench_tasks.provider.system.local import LocalSystem
from inferbench_tasks.running.host_lacks import host_lacks
from inferbench_tasks.running.host_tells import host_tells
from inferbench_tasks.stores.limit import cache_bytes, fetched_bytes
from inferbench_tasks.workers import drain as draining
from inferbench_tasks.workers.agent import Agent, celery_command
from inferbench_tasks.workers.devices import AUTO, FORM, chosen, cluster_name, find
from inferbench_tasks.workers.fleet import Fleet
from inferbench_tasks.workers.host_facts import facts
from inferbench_tasks.workers.host_report import HostReport
from inferbench_tasks.workers.patience import once_there

log = logging.getLogger(__name__)

app = typer.Typer()


@app.command()
def worker(
    device: list[str] = typer.Option(
        [], "--device", "-d", help=f"{AUTO} (all GPUs, else the cores), or {FORM}; repeat it for several."
    ),
    cluster: str = typer.Option(
        "",
        "--cluster",
        help="The cluster that it is of: its trainings have that name, and are compared by it.",
    ),
    join: str | None = typer.Option(
        None, metavar="URL", help="The leader on another host, as its `inferbench up --listen` prints it."
    ),
    token: str | None = typer.Option(
        None,
        metavar="FILE",
        help=f"With --join: the file of the token (`inferbench tokens create`), - for standard input [{TOKEN}].",
    ),
    drain: bool = typer.Option(
        False,
        "--drain",
        help="Serve nothing: have the workers that run here end, each with the job that it has, and wait for them.",
    ),
) -> None:
    """Register devices of this machine and run the jobs that are leased to them, until it is stopped.

    Where its leader or PerfDB is down it waits, and says so, until it is there.
    SIGTERM or Ctrl-C: it takes no further job and ends with the one that it has; a second one ends it at once.
    Airflow's settings (broker, execution API) come from the leader that is joined, else from the environment, else from
    the local system of the data directory.
    """
    extras.require("cluster")
    data_dir = settings.writable(settings.data_dir())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if drain:
        _drain(data_dir, device)
        return
    if token is not None and join is None:
        raise InputError("--token is for --join URL, which is not named.")
    with draining.entered(data_dir):
        if join is not None:
            secret = read_token(token)
            os.environ.pop(TOKEN, None)  # tasks and servers have no use for it
            os.environ.update(once_there(lambda: _joined(join, secret, data_dir)))
            device = device or [AUTO]
        if not device:
            raise InputError(f"No --device is named; allowed are {AUTO}, {FORM}.")
        name, devices = cluster_name(cluster), chosen(device)
        if "AIRFLOW__CELERY__BROKER_URL" not in os.environ:
            os.environ.update(LocalSystem(data_dir).environment())
        if len(devices) == 1:
            _serve(devices[0], name, data_dir)
            return
        os.environ[settings.DATA_DIR] = str(data_dir)
        command = [sys.executable, "-m", "inferbench_tasks.cli.main", "worker", "--cluster", name, "--device"]
        raise typer.Exit(Fleet({text: [*command, text] for text in devices}).run())


def _serve(text: str, cluster: str, data_dir: Path) -> None:
    home = settings.home_id(data_dir)
    limit = cache_bytes()  # a setting that is wrong is told now
    found = find(text)
    tells = host_tells() if found.gpu_index is None else {}
    device = found.model_copy(
        update={
            "cluster": cluster,
            "home": home,
            "boot_id": settings.boot_id(),
            "capabilities": found.capabilities | {LACKS: host_lacks(), TELLS: tells},
        }
    )

    with once_there(lambda: PerfDB.connect(settings.perfdb_uri(), data_dir)) as db:
        hosts = Hosts(db)
        once_there(lambda: hosts.admit(own()))
        command = celery_command(device.device_id, device.device_id, 1)
        report = HostReport(
            hosts, home, facts(_frameworks()), lambda: _cache_use(data_dir, limit), _token_ends()
        )
        Agent(device, Cluster(db), command, data_dir, report).run()


def _token_ends() -> datetime | None:
    """Of the token by which this process, or the one that started it, has joined a leader."""
    ends = os.environ.get(JOINED_UNTIL)
    return datetime.fromisoformat(ends) if ends else None


def _cache_use(data_dir: Path, limit_bytes: int) -> CacheUse:
    """What is fetched now, and what is free; StorageError where nobody can look."""
    try:
        free = shutil.disk_usage(data_dir).free
        return CacheUse(fetched_bytes=fetched_bytes(data_dir), limit_bytes=limit_bytes, free_bytes=free)
    except OSError as error:
        raise StorageError(
            f"What the cache of {data_dir} takes can't be looked at: {error.strerror}"
        ) from error


def _frameworks() -> list[FrameworkVersion] | None:
    """None, and why in the log, where a package's version is none: a device is served whatever else is installed."""
    try:
        return versions_here()
    except ValueError as error:
        log.warning("the leader is not told which frameworks are here: %s", error)
        return None


def _joined(url: str, secret: Secret, data_dir: Path) -> dict[str, str]:
    """The environment of a worker of that leader, after it was let in."""
    leader = Leader.join(url, secret, data_dir)
    leader.sync()
    say(f"joined    {url} as {leader.name}; its token ends on {leader.expires_at}")
    return environment(leader, data_dir)


def _drain(data_dir: Path, devices: list[str]) -> None:
    if devices:
        raise InputError(
            "--drain ends all workers of this data directory; to end one, send SIGTERM to its process."
        )
    kept = {process.pid for process in LocalSystem(data_dir).running()}
    workers = draining.workers(data_dir)
    if any(process.pid in kept for process in workers):
        raise InputError(
            "The workers here are of `inferbench up`, which would start them again; `inferbench down` ends the system."
        )
    if not workers:
        say("no worker runs here")
        return
    say(f"draining {len(workers)} worker process(es): each ends with the job that it has")
    draining.drain(workers)
    typer.echo(f"ended     {len(workers)}")
