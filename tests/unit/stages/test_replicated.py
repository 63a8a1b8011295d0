"""Devices of replicas, what each of them counted, and what a result says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.contracts.handles import Endpoint, ServerHandle
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.contracts.replicas import Balancer, Replica
from inferbench_tasks.errors import InputError
from inferbench_tasks.monitors.records import convert_spool
from inferbench_tasks.perfdb.held import configuration_of
from inferbench_tasks.stages import replicated
from inferbench_tasks.stages.collect import device_of, load_document
from inferbench_tasks.stages.replica_figures import of_replicas, per_device
from inferbench_tasks.stages.replica_watch import Life, answered_in, checks_of, remarks
from inferbench_tasks.stages.replicated import places
from inferbench_tasks.stages.spread.recordings import host_names
from inferbench_tasks.submission.schema import JobSpec
from tests.samples import samples_table

HANDLE = ServerHandle(launcher="process", pid=2**22 - 1, started_ns=0, log_path="/nowhere", config_path="c")


def held(*cores: tuple[int, ...]) -> tuple[HeldDevice, ...]:
    return tuple(
        HeldDevice(device_id=f"h.cpu-{at}", device_type="cpu", host="h", cores=own)
        for at, own in enumerate(cores)
    )


def replica(number: int) -> Replica:
    endpoint = Endpoint(protocol="http", host="127.0.0.1", port=1, model_name="m")
    return Replica(
        number=number, of=2, device_id=f"h.cpu-{number}", cores=(number,), server=HANDLE, endpoint=endpoint
    )


def balancer(**changes: Any) -> Balancer:
    told: dict[str, Any] = {
        "kind": "nginx", "policy": "least_conn", "version": "1.22.1", "workers": 1, "cores": (7,), "apart": True,
        "server": HANDLE, **changes,
    }  # fmt: skip
    return Balancer(**told)


def test_each_replica_has_a_device_that_was_leased() -> None:
    """In their order; what no device has is left for others."""
    devices, left = places(held((0, 1), (2, 3)), (4, 5), 2)
    assert [(device.device_id, device.cores) for device in devices] == [
        ("h.cpu-0", (0, 1)),
        ("h.cpu-1", (2, 3)),
    ]
    assert left == (4, 5)


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        (held((0,)), "holds 1 device.s. and needs 2"),
        (held((0,), ()), "h.cpu-1 states no cores"),
        (held((0, 1), (1, 2)), "share cores"),
    ],
)
def test_devices_without_cores_of_their_own_are_refused(devices: tuple[HeldDevice, ...], words: str) -> None:
    """Nobody would know what a replica had."""
    with pytest.raises(InputError, match=words) as raised:
        places(devices, (), 2)
    assert raised.value.field == "serve.devices"


def test_without_a_lease_the_machine_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evenly; what is left over is nobody's. Fewer cores than devices are too few."""
    monkeypatch.setattr(replicated, "granted", lambda: [2, 3, 5, 7, 11])
    devices, left = places((), (), 2)
    assert [device.cores for device in devices] == [(2, 3), (5, 7)] and left == (11,)
    assert devices[0].device_id.endswith(".cpu-2-3")
    with pytest.raises(InputError, match="6 devices need a core each; 5 may be used here"):
        places((), (), 6)


@pytest.mark.parametrize(
    ("counts", "answered", "failed", "failing"),
    [
        ((60, 40), 100, 0, []),
        ((60, 39), 100, 0, ["replica_counts"]),
        ((60, 41), 100, 0, ["replica_counts"]),
        ((60, 45), 100, 5, []),  # five were answered too late for the client
        ((60, 46), 100, 5, ["replica_counts"]),  # and one more was somebody else's
        ((60, 30), 100, 5, ["replica_counts"]),
        ((100, 0), 100, 0, ["replica_idle"]),
        ((3, 0), 3, 0, []),  # too few to say
    ],
)
def test_answers_are_what_the_replicas_counted(
    counts: tuple[int, ...], answered: int, failed: int, failing: list[str]
) -> None:
    """Each has to have had some; none may have come from elsewhere."""
    checks = checks_of(counts, answered, failed)
    assert [check.name for check in checks if not check.ok] == failing


def test_answered_samples_are_those_of_good_records(tmp_path: Path) -> None:
    """Of warm-up and measurement, with the samples of each request; beside them those of what failed."""
    times = np.arange(4) * 1_000_000
    table = samples_table(
        {
            "intended_ns": times, "sent_ns": times, "first_byte_ns": times + 5, "done_ns": times + 9,
            "status": ["ok", "ok", "timeout", "ok"], "batch_size": np.full(4, 3),
            "phase": ["warmup", "measure", "measure", "measure"],
        }
    )  # fmt: skip
    pq.write_table(table, tmp_path / "samples.parquet")
    assert answered_in(tmp_path / "samples.parquet") == (9, 3)


def test_one_that_ended_is_named_with_its_device() -> None:
    """By its number, and of how many."""
    life = Life((replica(2),), None)
    life.look()
    assert life.reason is not None
    assert life.reason.startswith("Replica 2 of 2 (h.cpu-2) ended while the load lasted")


def summary() -> dict[str, Any]:
    return {
        "throughput_rps": 100.0, "throughput_samples_per_s": 200.0, "goodput_rps": None,
        "resources": {
            "server": {
                "replica1_cpu_s_total": 5.0, "replica2_cpu_s_total": 3.0,
                "replica1_rss_bytes": {"max": 10.0}, "replica2_rss_bytes": {"max": 20.0},
            }
        },
    }  # fmt: skip


def test_figures_of_all_are_divided_by_the_devices() -> None:
    """Rates by two; of each its own samples, CPU and memory."""
    each = per_device(summary(), (replica(1), replica(2)), (1500, 500), seconds=10.0)
    assert (each["devices"], each["throughput_rps"], each["throughput_samples_per_s"]) == (2, 50.0, 100.0)
    assert each["goodput_rps"] is None and each["share_ratio"] == pytest.approx(1 / 3)
    told = ("device_id", "samples_ratio", "cpu_cores", "rss_bytes")
    assert [tuple(row[name] for name in told) for row in each["replicas"]] == [
        ("h.cpu-1", 0.75, 0.5, 10.0), ("h.cpu-2", 0.25, 0.3, 20.0),
    ]  # fmt: skip


def test_a_result_names_all_devices_and_the_balancers_cores() -> None:
    """The device's name says how many, so that no list takes them for one; of one server nothing is said."""
    replicas = (replica(1), replica(2))
    told = of_replicas(replicas, balancer(), (1, 2))["replicas"]
    assert [server["device_id"] for server in told["servers"]] == ["h.cpu-1", "h.cpu-2"]
    assert (told["balancer"]["core_numbers"], told["balancer"]["apart"]) == ([7], True)
    hardware = {"cpu": "A CPU", "cores_allowed": [1, 2, 7], "cores_logical": 8}
    device = device_of(DeviceSpec("cpu"), hardware, replicas).model_dump()
    assert (device["name"], device["cores"], device["count"]) == ("2 x A CPU", 2.0, 2)
    assert device["product"] == "A CPU"
    assert [each["device_id"] for each in device["devices"]] == ["h.cpu-1", "h.cpu-2"]
    alone = device_of(DeviceSpec("cpu"), hardware, ()).model_dump()
    assert (alone["name"], alone["cores"]) == ("A CPU", 3.0) and "count" not in alone
    assert of_replicas((), None, ()) == {}


def test_unlike_devices_are_not_called_alike() -> None:
    """Four cores and two are six, as three and three are: the name says which, so that they are never repeats."""
    hardware = {"cpu": "A CPU", "cores_allowed": [0, 1, 2, 3, 4, 5], "cores_logical": 6}

    def named(*cores: tuple[int, ...]) -> tuple[str | None, float | None]:
        several = tuple(
            replica(at).model_copy(update={"cores": own}) for at, own in enumerate(cores, start=1)
        )
        device = device_of(DeviceSpec("cpu"), hardware, several)
        return device.name, device.cores

    assert named((0, 1), (2, 3, 4, 5)) == ("2 x A CPU of 4 and 2 cores", 6.0)
    assert named((0, 1, 2), (3, 4, 5)) == ("2 x A CPU", 6.0)


def test_a_balancer_with_cores_of_its_own_is_another_configuration() -> None:
    """Wherever one is told from another by its device's name: it uses more of the machine than one that shares the
    replicas' cores, and so much more as its processes can use."""
    hardware = {"cpu": "A CPU", "cores_allowed": [1, 2, 5, 6, 7], "cores_logical": 8}
    before = {
        "shared": balancer(apart=False, cores=(1, 2), workers=2),
        "one": balancer(cores=(7,)),
        "two": balancer(cores=(5, 6, 7), workers=2),
    }
    names = {
        which: device_of(DeviceSpec("cpu"), hardware, (replica(1), replica(2)), one).name
        for which, one in before.items()
    }
    assert names == {
        "shared": "2 x A CPU",
        "one": "2 x A CPU with 1 core for nginx",
        "two": "2 x A CPU with 2 cores for nginx",
    }
    assert len({configuration_of("digest", "run", name, 2.0) for name in names.values()}) == 3


SECOND = 1_000_000_000


def recorded(folder: Path, cores: float) -> Path:
    """Ten seconds in which the busiest of the balancer's processes used so much of a core, and another half of that."""
    lines = [
        {"unavailable": {}},
        *(
            [at * SECOND, "balancer", {"cpu_s_total": at * cores * 1.5, "busiest_s_total": at * cores}]
            for at in range(11)
        ),
    ]
    (folder / "spool").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    convert_spool(folder / "spool", folder / "monitors.parquet", None)
    return folder / "monitors.parquet"


def test_a_balancer_on_the_replicas_cores_or_at_its_end_is_said(tmp_path: Path) -> None:
    """Neither of one with cores of its own and room; nothing without one."""
    calm, busy = recorded(tmp_path, 0.3), (0, 10 * SECOND)
    assert remarks(None, calm, *busy) == [] == remarks(balancer(), calm, *busy)
    (shared,) = remarks(balancer(apart=False), calm, *busy)
    assert "ran on the replicas' cores" in shared
    # Two processes with three quarters of their cores: one of them has no room all the same.
    (full,) = remarks(balancer(workers=2), recorded(tmp_path, 0.9), *busy)
    assert "busiest of the balancer's 2 process(es) used 90% of a core" in full
    assert remarks(balancer(workers=2), recorded(tmp_path, 0.7), *busy) == []


def test_what_nobody_saw_of_it_is_said(tmp_path: Path) -> None:
    """A recording that ends amid the window."""
    (unseen,) = remarks(balancer(), recorded(tmp_path, 0.3), 0, 100 * SECOND)
    assert "not recorded over the whole of the window" in unseen


def on_hosts(*names: str) -> tuple[Replica, ...]:
    return tuple(
        replica(number).model_copy(update={"host": name, "of": len(names)})
        for number, name in enumerate(names, 1)
    )


def test_hosts_are_told_in_the_device_s_name() -> None:
    """So that no list takes replicas on two hosts for those on one, or two processors for one."""
    hardware = {"cpu": "A CPU", "cores_allowed": [1], "cores_logical": 8}
    alike = device_of(DeviceSpec("cpu"), hardware, on_hosts("b", "a"), None, [hardware]).model_dump()
    assert (alike["name"], alike["product"], alike["cores"]) == ("2 x A CPU on 2 hosts", "A CPU", 2.0)
    assert [each["host"] for each in alike["devices"]] == ["b", "a"]
    unlike = device_of(DeviceSpec("cpu"), hardware, on_hosts("b", "a"), None, [{"cpu": "Z"}]).model_dump()
    assert unlike["name"] == "2 x A CPU and Z on 2 hosts"
    untold = device_of(DeviceSpec("cpu"), hardware, on_hosts("b", "a"), None, [{}]).model_dump()
    assert untold["name"] is None
    told = of_replicas(on_hosts("b", "a"), None, (1, 2))["replicas"]["servers"]
    assert [server["host"] for server in told] == ["b", "a"]


def test_their_network_is_another_one_by_the_hosts_whichever_is_the_first() -> None:
    """As that of a load from another host; replicas on one host have the network that was asked for."""
    asked = {
        "name": "x", "model": {"kind": "zoo", "name": "digits"},
        "load": {"arrivals": {"kind": "poisson", "rate_rps": 1}},
    }  # fmt: skip
    apart = JobSpec.model_validate({**asked, "serve": {"devices": 2, "spread": "own_hosts"}})
    here = JobSpec.model_validate({**asked, "serve": {"devices": 2}})
    one, other = (load_document(apart, None, host_names(on_hosts(*names))) for names in ("ab", "ba"))
    assert one["network"] == other["network"] == "between hosts a and b"
    assert load_document(apart)["network"] == "between hosts"
    assert load_document(here, None, host_names(on_hosts("", "")))["network"] == "lan"
