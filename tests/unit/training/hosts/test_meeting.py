"""How the ranks of two hosts are started, and by which network they exchange."""

from __future__ import annotations

import socket
import sys

import pytest

from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.errors import StageError
from inferbench_tasks.training.hosts.meeting import GLOO_INTERFACE, Meeting, free_port, interface_of
from inferbench_tasks.training.hosts.on_host import own_answers, rank_cores
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.trainers.torchrun import Torchrun


def job(**devices: object) -> TrainingJob:
    two = {"count": 2, "hosts": 2, "strategy": "ddp", **devices}
    return TrainingJob.model_validate(
        {"kind": "training", "name": "x", "data": {"kind": "digits"}, "devices": two}
    )


@pytest.mark.parametrize("node", [0, 1])
def test_each_host_starts_its_own_ranks_which_meet_at_the_first(node: int) -> None:
    """By torchrun's static rendezvous, at the port that the first host chose, within the patience of the exchange."""
    meeting = Meeting(node, "192.0.2.1", 4711, f"192.0.2.{node + 1}")
    command = Torchrun.command_of_host(job(processes=3), ("-m", "program", "order"), meeting)
    assert command[:3] == (sys.executable, "-m", "torch.distributed.run")
    assert command[-3:] == ("-m", "program", "order")
    options = dict(zip(command[3:-3:2], command[4:-3:2], strict=True))
    assert options == {
        "--nnodes": "2", "--node-rank": str(node), "--master-addr": "192.0.2.1", "--master-port": "4711",
        "--local-addr": f"192.0.2.{node + 1}", "--rdzv-conf": "timeout=120", "--nproc-per-node": "3",
        "--max-restarts": "0",
    }  # fmt: skip


def test_they_exchange_by_the_interface_of_that_address() -> None:
    """Not by whatever the host's name leads to; an address of no interface is said to be none."""
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    assert Meeting(0, "127.0.0.1", 1, "127.0.0.1").env() == {GLOO_INTERFACE: loopback}
    with pytest.raises(StageError, match="No network interface of this host has the address 192.0.2.9"):
        interface_of("192.0.2.9")


def test_the_port_is_free() -> None:
    """Somebody can listen there at once."""
    with socket.create_server(("127.0.0.1", free_port("127.0.0.1"))):
        pass


def test_each_host_pins_and_waits_for_its_own_ranks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """The second host's ranks have the numbers behind the first one's, and the cores of their own host."""
    monkeypatch.setattr("inferbench_tasks.training.hosts.on_host.granted", lambda: [4, 5])
    held = [HeldDevice(device_id="a", device_type="cpu", host="h", cores=(4, 5))]
    assert rank_cores(job(processes=2, cores=1), held, 0) == ((4,), (5,))
    assert rank_cores(job(processes=2, cores=1), held, 1) == ((), (), (4,), (5,))
    assert rank_cores(job(processes=2), held, 1) == ()
    names = [[path.name for path in own_answers(job(processes=2), tmp_path, node)] for node in (0, 1)]  # type: ignore[arg-type]
    assert names == [["rank-0.json", "rank-1.json"], ["rank-2.json", "rank-3.json"]]
