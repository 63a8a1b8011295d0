"""The network between two hosts, measured: namespaces with addresses, clocks and data directories of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks import settings
from inferbench_tasks.cluster.links import Links
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.contracts.link import LinkEnd, MeasuredLink
from inferbench_tasks.loadgen.records import read_samples
from inferbench_tasks.networks.base import shaping_proxy
from inferbench_tasks.networks.links.around import AroundLoad
from inferbench_tasks.networks.links.invitation import Invitation
from inferbench_tasks.networks.links.near_side import NearSide
from inferbench_tasks.networks.network import Network
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.timing.two_clocks import bounds_at
from tests.far_side import listening
from tests.load_servers import run_load
from tests.namespaces import AHEAD_S, HostNamespace, host_namespace

pytestmark = pytest.mark.integration
ME = LinkEnd(host="near", home="n" * 32, address="")
CLI = ("-m", "inferbench_tasks.cli.main")
#: Answers at once, on the address that it is given.
NULL_SERVER = """
import asyncio, sys
from inferbench_tasks.loadgen.null_server import NullHttp, answer_message
async def main():
    answer = answer_message("http", 64)
    server = await asyncio.get_running_loop().create_server(lambda: NullHttp(answer), sys.argv[1], 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@contextmanager
def running(words: list[str], home: Path, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A command on a host with that data directory, which is over in the end."""
    environment = {name: value for name, value in os.environ.items() if name != settings.PERFDB_URI}
    environment[settings.DATA_DIR] = str(home)
    with subprocess.Popen(words, env=environment, text=True, **more) as process:
        try:
            yield process
        finally:
            process.kill()


def written(path: Path, process: subprocess.Popen[str]) -> Invitation:
    """The file that the other host's ``listen`` writes."""
    for _ in range(600):
        if path.exists() and path.read_text().endswith("\n"):
            return Invitation.read(str(path))
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    raise AssertionError("nobody listened")


@pytest.fixture
def far() -> Iterator[HostNamespace]:
    """A host behind 100 Mbit/s, whose CLOCK_MONOTONIC is 1,000 s ahead."""
    with host_namespace(100) as host:
        yield host


def test_a_link_is_measured_between_hosts(
    far: HostNamespace, perfdb: PerfDB, perfdb_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the two commands: the wire's rate, clocks that are one (Unix time is shared), and both ends' data directories;
    stored and listed with its age. The file is gone from the far host when it has counted."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    monkeypatch.setenv(settings.DATA_DIR, str(tmp_path / "near"))
    file, copy = tmp_path / "link.txt", tmp_path / "copy.txt"
    words = far.python(*CLI, "links", "listen", "--address", far.address, "--to", str(file))
    with running(words, tmp_path / "far", stderr=subprocess.PIPE) as listener:
        written(file, listener).write(copy)
        words = [sys.executable, *CLI, "links", "measure", str(copy), "-o", "json"]
        measured = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert measured.returncode == 0, measured.stderr
        assert listener.wait(10) == 0
        assert listener.stderr is not None and f"measured by {far.near}" in listener.stderr.read()
    assert not file.exists()
    link = MeasuredLink.model_validate_json(measured.stdout)
    assert (link.near.address, link.far.address) == (far.near, far.address)
    assert link.near.home == settings.home_id(tmp_path / "near")
    assert link.far.home == settings.home_id(tmp_path / "far")
    # Of 100 Mbit/s on the wire TCP's payload is 94.9 at most; a busy machine gives less.
    for rate in (link.up_mbit_s, link.down_mbit_s):
        assert rate is not None and 60 < rate < 100
    assert link.clock.ahead_s is not None and link.clock.error_s is not None
    assert abs(link.clock.ahead_s) <= link.clock.error_s
    ((stored, age_s),) = Links(perfdb).all()
    assert stored == link and 0 <= age_s < 60
    listed = subprocess.run(
        [sys.executable, *CLI, "links", "list", "-o", "json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    (row,) = json.loads(listed.stdout)
    assert row["round_trip"] == link.model_dump(mode="json")["round_trip"]


def test_a_load_on_a_server_of_another_host_has_its_link(far: HostNamespace, tmp_path: Path) -> None:
    """Sent here, answered there. The link stands before and after; the clocks' offset, which the kernel tells exactly,
    lies within the error at both ends of the load and in between, and 0 within what one gained on the other."""
    file = tmp_path / "link.txt"
    listen = far.python(*CLI, "links", "listen", "--address", far.address, "--to", str(file))
    serve = far.python("-c", NULL_SERVER, far.address)
    with (
        running(serve, tmp_path / "far", stdout=subprocess.PIPE) as server,
        running(listen, tmp_path / "far", stderr=subprocess.PIPE) as listener,
    ):
        assert server.stdout is not None
        where = Endpoint(
            protocol="http", host=far.address, port=int(server.stdout.readline()), model_name="null"
        )
        with NearSide(written(file, listener)) as near:
            around = AroundLoad(near, ME)
            arrivals = {"kind": "poisson", "rate_rps": 100}
            plan, outcome = run_load(tmp_path, where, arrivals=arrivals, duration_s=4, warmup_s=0.5)
            after = near.exchanges(50, 5.0)
            link = around.ended()
        assert listener.wait(10) == 0
    assert outcome.requests > 200 and set(read_samples(outcome.samples_path)["status"].to_pylist()) == {"ok"}
    assert link.after is not None and link.after.far.address == far.address
    exchanges = [*around.before.exchanges, *after]
    for at_ns in (outcome.measure_start_ns, outcome.measure_end_ns, exchanges[-1].received_ns):
        bounds = bounds_at(exchanges, at_ns)
        assert bounds is not None and bounds.low_ns <= AHEAD_S * 10**9 <= bounds.high_ns
        assert bounds.error_ns < 10_000_000
    assert link.drift_ppm is not None and link.drift_ppm[0] <= 0 <= link.drift_ppm[1]
    assert plan.endpoint.host == far.address


@pytest.mark.long  # of a wire: tests/integration/test_load_from_other_host.py
@pytest.mark.parametrize("latency_ms", [2, 20])
def test_latencies_over_a_link_are_those_of_one_host_and_its_round_trip(
    latency_ms: float, tmp_path: Path
) -> None:
    """The same server, beside the sender and behind a network that delays: the medians differ by the median round trip
    that the link was measured to have, within what its round trips differ among themselves."""
    load: dict[str, Any] = {
        "arrivals": {"kind": "poisson", "rate_rps": 100}, "duration_s": 4, "warmup_s": 0.5
    }  # fmt: skip
    network = Network(name="test", source="test", date="2024", latency_ms=latency_ms)
    for attempt in range(4):  # a machine that others use too may have no quiet second
        folder = tmp_path / str(attempt)
        gap_ms, trip_ms, uncertain_ms = behind_and_beside(network, load, folder)
        if uncertain_ms < latency_ms:
            break
    assert gap_ms == pytest.approx(trip_ms, abs=uncertain_ms)


def behind_and_beside(network: Network, load: dict[str, Any], folder: Path) -> tuple[float, float, float]:
    """(how much longer requests take behind that network, what the link's round trip was, how sure that is), ms."""
    folder.mkdir()
    serve = [sys.executable, "-c", NULL_SERVER, "127.0.0.1"]
    with running(serve, folder, stdout=subprocess.PIPE) as server, listening(60) as (side, _):
        assert server.stdout is not None
        port = int(server.stdout.readline())
        beside = median_ms(folder / "beside", port, load)
        with (
            shaping_proxy(network, "127.0.0.1", port, folder / "server.log") as shaped,
            shaping_proxy(network, "127.0.0.1", side.invitation.port, folder / "link.log") as link_port,
            NearSide(replace(side.invitation, port=int(link_port))) as near,
        ):
            around = AroundLoad(near, ME)
            behind = median_ms(folder / "behind", int(shaped), load)
            link = around.ended()
    assert link.after is not None
    trips = [link.before.round_trip, link.after.round_trip]
    middles = [trip.p50_ms for trip in trips if trip.p50_ms is not None]
    tails = [trip.p90_ms for trip in trips if trip.p90_ms is not None]
    assert len(middles) == len(tails) == 2
    return behind - beside, float(np.mean(middles)), max(tails) - min(trip.min_ms for trip in trips)


def median_ms(folder: Path, port: int, load: dict[str, Any]) -> float:
    """Of a request's time from its send to its answer."""
    folder.mkdir()
    where = Endpoint(protocol="http", host="127.0.0.1", port=port, model_name="null")
    _, outcome = run_load(folder, where, **load)
    table = read_samples(outcome.samples_path)
    assert outcome.requests > 200
    times = np.asarray(table["done_ns"].to_pylist()) - np.asarray(table["sent_ns"].to_pylist())
    return float(np.median(times)) / 1e6
