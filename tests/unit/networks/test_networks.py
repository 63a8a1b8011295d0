"""Emulated networks: the arithmetic of a link, and the real proxy under a real clock."""

from __future__ import annotations

import socket
import statistics
from pathlib import Path

import pytest

from inferbench_tasks.errors import UnknownKindError
from inferbench_tasks.networks.base import Network, emulated, find_network, network_names, networks
from inferbench_tasks.networks.proxy import Link
from inferbench_tasks.networks.selftest import self_test
from inferbench_tasks.stages.handles import Endpoint


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


def test_the_real_proxy_meets_its_figures(tmp_path: Path) -> None:
    """Round trip and bandwidth, measured through the proxy's own process, are those of the row within 10%."""
    found = self_test(network(latency_ms=20, up_mbit_s=16, down_mbit_s=24), tmp_path)
    assert found["round_trip_ms"]["measured"] == pytest.approx(40, rel=0.10)
    assert found["up_mbit_s"]["measured"] == pytest.approx(16, rel=0.10)
    assert found["down_mbit_s"]["measured"] == pytest.approx(24, rel=0.10)
    assert found["met"]


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
            patch.setattr("inferbench_tasks.networks.base.networks", lambda: {"test": row})
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
