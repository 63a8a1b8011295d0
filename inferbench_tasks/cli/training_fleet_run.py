"""The part of ``inferbench training fleet`` that runs the short epoch on every device of a running system."""

from __future__ import annotations

import time
from collections.abc import Sequence

import yaml

from inferbench_tasks.cli.submit import client_of
from inferbench_tasks.client import InferBench
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import TTL_S, Cluster
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import say
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training.fleet.epoch import groups, submission

POLL_S = 2.0
_ENDED = ("success", "failed")


def run_on_all(db: PerfDB, *, cluster: str, links: bool, repeat: int, url: str | None, user: str) -> None:
    """Submit the epoch for each device and group, ``repeat`` times over, and wait until all have ended.

    InputError without a running system, or without a device that could run it; nothing is submitted then.
    """
    devices = usable(Cluster(db).devices(), cluster)
    wanted = groups(devices, links and Cluster(db).grants_gangs)
    if links and not Cluster(db).grants_gangs:
        say("links are not tried: leases of several devices need a PerfDB that is a replica set")
    with client_of(url, user) as bench:
        runs = {}
        # Rounds over all of them, so that what drifts on a host meets each device.
        for round_ in range(repeat):
            for group in wanted:
                answer = bench.submit(yaml.safe_dump(submission(group), sort_keys=False))
                runs[answer["run"]] = " + ".join(device.device_id for device in group)
            say(
                f"submitted {len(wanted)} epoch(s) on {len(devices)} device(s), round {round_ + 1} of {repeat}"
            )
        _wait(bench, runs)


def usable(devices: Sequence[Device], cluster: str) -> list[Device]:
    """Those whose worker runs and that are in no quarantine, of that cluster; the others are named.

    InputError where none is left.
    """
    chosen = [device for device in devices if not cluster or device.cluster == cluster]
    found = [device for device in chosen if device.present(TTL_S) and device.health == "ok"]
    for device in chosen:
        if device not in found:
            why = device.reason if device.present(TTL_S) else "its worker does not run"
            say(f"left out: {device.device_id}: {why}")
    if not found:
        of = f" of the cluster {cluster!r}" if cluster else ""
        raise InputError(
            f"there is no device{of} that could run an epoch; `inferbench status` shows them all"
        )
    return found


def _wait(bench: InferBench, runs: dict[str, str]) -> None:
    left = dict(runs)
    while left:
        for run in [*left]:
            progress = bench.progress(run)
            if progress["state"] in _ENDED:
                verdicts = ", ".join(progress.get("verdicts", {}).values()) or progress["state"]
                say(f"{left.pop(run)}: {verdicts} ({len(runs) - len(left)} of {len(runs)})")
        time.sleep(POLL_S if left else 0)
