"""``inferbench worker``: serve one device of this machine."""

from __future__ import annotations

import logging
import os

import typer

from inferbench_tasks import extras, settings
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.system.local import LocalSystem
from inferbench_tasks.workers.agent import Agent, celery_command
from inferbench_tasks.workers.devices import FORM, cluster_name, find

app = typer.Typer()


@app.command()
def worker(
    device: str = typer.Option(..., "--device", "-d", help=FORM),
    cluster: str = typer.Option(
        "",
        "--cluster",
        help="The cluster that it is of: its trainings have that name, and are compared by it.",
    ),
) -> None:
    """Register a device of this machine and run the jobs that are leased to it, until it is stopped.

    Airflow's settings (broker, execution API) come from the environment, else from the local system of the data
    directory.
    """
    extras.require("cluster")
    data_dir = settings.writable(settings.data_dir())
    about = {"cluster": cluster_name(cluster), "home": settings.home_id(data_dir)}
    device_spec = find(device).model_copy(update=about)
    if "AIRFLOW__CELERY__BROKER_URL" not in os.environ:
        os.environ.update(LocalSystem(data_dir).environment())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
        Agent(
            device_spec,
            Cluster(db),
            celery_command(device_spec.device_id, device_spec.device_id, 1),
            data_dir,
        ).run()
