"""Emulated networks: the arithmetic of a link, and the real proxy under a real clock."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import UnknownKindError
from inferbench_tasks.networks import netem, pings
from inferbench_tasks.networks.base import emulated, shaped_path
from inferbench_tasks.networks.network import Network, custom_problem, find_network, network_names, networks
from inferbench_tasks.networks.proxy import Link
from inferbench_tasks.networks.selftest import self_test
from inferbench_tasks.timing.realtime import become_realtime, realtime_problem


def network(**figures: float) -> Network:
    """A network with those figures."""
    return Network.model_validate({"name": "test", "source": "test", "date": "2024", **figures})


def test_latency_and_bandwidth_add_up() -> None:
    """A piece leaves after what was before it on the link, its own length on the link, and the latency."""
    link = Link(network(latency_ms=10), 8.0, seed=1)  # 8 Mbit/s: 1 us per byte
    assert link.leaves_ns(0, 1000) == 11_000_000
    assert link.leaves_ns(0, 1000) == 12_000_000
    assert link.leaves_ns(50_000_000, 1000) == 61_000_000


def test_jitter_has_the_standard_deviation_asked_for_and_a_seed() -> None:
    """Delays spread by jitter_ms around latency_ms; the same seed gives the same delays."""
    first, again = (Link(network(latency_ms=50, jitter_ms=5), None, seed=3) for _ in range(2))
    delays = [first.leaves_ns(0, 1) / 1e6 for _ in range(4000)]
    assert statistics.mean(delays) == pytest.approx(50, abs=0.4)
    assert statistics.stdev(delays) == pytest.approx(5, rel=0.06)
    assert [again.leaves_ns(0, 1) / 1e6 for _ in range(4000)] == delays


def test_a_lost_segment_costs_a_round_trip() -> None:
    """With 10% loss a tenth of single segments come a round trip (or two) later."""
    link = Link(network(latency_ms=10, loss_ratio=0.1), None, seed=5)
    delays = [link.leaves_ns(0, 100) / 1e6 for _ in range(5000)]
    assert set(delays) <= {10.0, 30.0, 50.0, 70.0, 90.0}
    assert sum(delay > 10 for delay in delays) / 5000 == pytest.approx(0.1, abs=0.015)


@pytest.fixture
def undisturbed() -> Iterator[None]:
    """This thread, and the echo server that it starts, wait for nobody, where that is permitted."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    if realtime_problem() is None:
        become_realtime()
    yield
    os.sched_setscheduler(0, *before)


def test_the_real_proxy_meets_its_figures(tmp_path: Path, undisturbed: None) -> None:
    """Round trip and bandwidth, measured through the proxy's own process, are those of the row within 10%."""
    row = network(latency_ms=20, jitter_ms=2, up_mbit_s=16, down_mbit_s=24)
    for _ in range(8):  # a machine that others use too may have no quiet second
        found = self_test(row, tmp_path, count=200)
        figures = {figure["figure"]: figure for figure in found["figures"]}
        if all(figures[name]["met"] for name in ("round_trip_ms", "up_mbit_s", "down_mbit_s")):
            break
    assert figures["round_trip_ms"]["measured"] == pytest.approx(40, rel=0.10)
    assert figures["up_mbit_s"]["measured"] == pytest.approx(16, rel=0.10)
    assert figures["down_mbit_s"]["measured"] == pytest.approx(24, rel=0.10)
    assert figures["jitter_ms"]["asked"] == pytest.approx(2 * 2**0.5)
    assert found["emulation"] == ("proxy" if netem.unavailable() else "netem")


def test_what_the_proxy_itself_takes_is_taken_off() -> None:
    """A millisecond of its own makes the latency a millisecond shorter; a loss still costs its whole round trip."""
    link = Link(network(latency_ms=10, loss_ratio=0.4), None, seed=5)
    link.take_off(1.0)
    delays = {link.leaves_ns(0, 100) / 1e6 for _ in range(200)}
    assert {9.0, 29.0} <= delays
    link.take_off(100.0)
    assert min(link.leaves_ns(0, 100) for _ in range(50)) == 0


def test_a_network_can_be_spelled_out() -> None:
    """``custom:`` gives every figure; what is wrong in it is named."""
    found = find_network("custom:latency_ms=20,jitter_ms=2,up_mbit_s=16,loss_ratio=0.01")
    assert found is not None
    assert (found.latency_ms, found.jitter_ms, found.up_mbit_s, found.down_mbit_s) == (20, 2, 16, None)
    assert custom_problem("custom:latency_ms=20") is None
    assert "'speed'" in (custom_problem("custom:speed=3") or "")
    assert "loss_ratio" in (custom_problem("custom:loss_ratio=0.9") or "")
    assert "needs latency_ms" in (custom_problem("custom:loss_ratio=0.05,up_mbit_s=16") or "")


def test_netem_is_told_every_figure() -> None:
    """Latency, jitter, loss and rate of one direction, in tc's words."""
    words = netem.qdisc(network(latency_ms=20, jitter_ms=2, loss_ratio=0.01), 16.0)
    assert (
        " ".join(words) == "netem limit 100000 delay 20.0ms 2.0ms distribution normal loss 1.0% rate 16.0mbit"
    )
    assert netem.qdisc(network(latency_ms=3), None)[-2:] == ["delay", "3.0ms"]


def test_a_namespace_leads_to_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The namespace, the pair of interfaces and the relay in it are real; where the kernel has no netem, unshaped."""
    if netem.unavailable() is not None:
        monkeypatch.setattr(netem, "qdisc", lambda network, mbit_s: ["pfifo", "limit", "1000"])
    netem.unavailable.cache_clear()
    try:
        if reason := netem.unavailable():
            assert reason.startswith(("netem: `ip ", "netem: `tc ")) or "not installed" in reason
            pytest.skip(f"no network namespace can be made here: {reason}")
        before = set(Path("/run/netns").iterdir())
        with (
            pings.echo() as port,
            shaped_path(network(latency_ms=5), "127.0.0.1", port, tmp_path / "log") as path,
        ):
            assert path["host"].startswith("169.254.") and path["about"]["emulation"] == "netem"
            assert len(pings.round_trips_ms(path["port"], 5, host=path["host"])) >= 5
            assert pings.transfer_s(path["port"], 300_000, "down", path["host"]) > 0
        assert set(Path("/run/netns").iterdir()) == before
    finally:
        netem.unavailable.cache_clear()


def test_a_namespace_is_left_once_its_maker_is_gone(tmp_path: Path) -> None:
    """By its name: not one whose maker lives, one of another container's processes, of an earlier version, or of
    somebody else."""
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    here = os.stat("/proc/self/ns/pid").st_ino
    names = {
        f"ib-0a0b-{here}-{ended.pid}": True,
        f"ib-0a0c-{here}-{os.getpid()}": False,
        f"ib-0a0d-{here + 1}-{ended.pid}": False,
        f"ib-0a0e-{ended.pid}": False,
        f"mine-0a0b-{here}-{ended.pid}": False,
    }
    for name in names:
        (tmp_path / name).touch()
    assert netem.left_behind(tmp_path) == [name for name, left in names.items() if left]
    assert netem.left_behind(tmp_path / "none") == []
    assert netem.remove("mine-0a0b-1-1") == "it is none of ours"


def test_lan_is_the_network_as_it_is(tmp_path: Path) -> None:
    """Nothing is put in between."""
    endpoint = Endpoint(protocol="http", host="127.0.0.1", port=1, model_name="m")
    with emulated("lan", endpoint, tmp_path) as shaped:
        assert shaped is endpoint


def test_data_arrives_whole_and_in_order_and_ends_with_its_connection(tmp_path: Path) -> None:
    """A megabyte with jitter and loss comes back byte for byte; the server's close reaches the client."""
    data = bytes(range(256)) * 4096
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        endpoint = Endpoint(protocol="http", host="127.0.0.1", port=port, model_name="m")
        with pytest.MonkeyPatch.context() as patch:
            row = network(latency_ms=1, jitter_ms=1, loss_ratio=0.05)
            patch.setattr("inferbench_tasks.networks.network.networks", lambda: {"test": row})
            with emulated("test", endpoint, tmp_path) as shaped:
                with socket.create_connection((shaped.host, shaped.port), timeout=30) as client:
                    connection, _ = server.accept()
                    with connection:
                        connection.sendall(data)
                    received = b""
                    while piece := client.recv(1 << 16):
                        received += piece
    assert received == data


def test_an_unknown_network_is_refused_with_the_known_ones() -> None:
    """The message lists what a submission may name."""
    with pytest.raises(UnknownKindError, match=r"Unknown network 'pigeon' .* known: lan, wifi, 4g_lte"):
        find_network("pigeon")
    assert network_names() == ("lan", *networks())
