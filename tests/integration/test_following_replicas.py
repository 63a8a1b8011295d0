"""What the load's host asks of replicas on other hosts, for real but on one machine: the watch is a thread here."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import ColdStart, Endpoint, ServerHandle
from inferbench_tasks.contracts.replicas import Replica
from inferbench_tasks.errors import CancelledError, StageError
from inferbench_tasks.launchers import processes
from inferbench_tasks.monitors.records import read_recording
from inferbench_tasks.networks.links import measure as measuring
from inferbench_tasks.networks.links.far_side import FarSide
from inferbench_tasks.networks.links.invitation import Invitation
from inferbench_tasks.stages import lease_elsewhere
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.senders.far_watch import FarWatch, Order
from inferbench_tasks.stages.spread import beside, following
from inferbench_tasks.stages.spread.following import Following
from inferbench_tasks.stages.spread.handles import FarReplica

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
SLEEPS = "import time\nwhile True: time.sleep(0.01)"


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """One machine as hosts; links that are measured in moments, and leases that nobody waits for."""
    monkeypatch.setenv(settings.ONE_MACHINE_AS_HOSTS, "1")
    monkeypatch.setattr(measuring, "STREAM_S", 0.1)
    monkeypatch.setattr(measuring, "MOST_QUESTIONS", 50)
    monkeypatch.setattr(lease_elsewhere, "_LEASE_S", 0.0)
    monkeypatch.setattr(following, "_LOOK_S", 0.05)


@contextmanager
def server(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], ServerHandle]]:
    """A process that is watched as one."""
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen([sys.executable, "-c", SLEEPS], stdout=log, start_new_session=True)
    handle = ServerHandle(
        launcher="process", pid=process.pid, started_ns=processes.created_ns(process.pid),
        log_path=str(folder / "server.log"), config_path="",
    )  # fmt: skip
    try:
        yield process, handle
    finally:
        process.kill()
        process.wait()


@contextmanager
def watched(folder: Path, number: int, handle: ServerHandle, home: str = "") -> Iterator[FarReplica]:
    """A replica, and what stands beside it."""
    ends: list[Any] = []
    order = Order(
        address="127.0.0.1", host=f"host-{number}", home=home or str(number) * 32, server=handle, device="cpu",
        recording_path=str(folder / f"far-{number}.parquet"), told_path=str(folder / f"told-{number}"),
        patience_s=30.0,
    )  # fmt: skip
    with FarSide(order.address, 0, order.host, order.home) as far:

        def serve() -> None:
            try:
                beside.serve(order, far)
                ends.append("done")
            except ConnectionError as error:
                ends.append(error)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        replica = Replica(
            number=number, of=3, device_id="", cores=(0,), server=handle, host=order.host,
            endpoint=Endpoint(protocol="http", host="127.0.0.1", port=1, model_name="m", secret="s"),
        )  # fmt: skip
        yield FarReplica(
            replica=replica, watch=FarWatch.of(far.invitation, order.recording_path),
            cold_start=ColdStart(process_ms=1, model_load_ms=1, first_answer_ms=1, total_ms=3),
            difference_ratio=0.0, version="1", hardware={}, system={}, not_quiet="others used it",
        )  # fmt: skip
        far.__exit__()  # of one to whom nobody came
        thread.join(40)
        assert not thread.is_alive() and len(ends) == 1


def context(folder: Path) -> Context:
    return Context(data_dir=folder / "data", base_dir=folder)


def test_two_hosts_are_watched_over_a_load_and_their_recordings_come_here(tmp_path: Path) -> None:
    """The link is measured before and after; each recording is of its own server over the whole window, to be put on
    this host's clock; the end takes no longer than that. No secret and no exchange is handed on."""
    with (
        server(tmp_path) as (_, handle),
        watched(tmp_path, 2, handle) as one,
        watched(tmp_path, 3, handle) as other,
    ):
        with Following((one, other), tmp_path, context(tmp_path)) as far:
            start_ns = time.monotonic_ns()
            time.sleep(3.0)
            assert not far.over
            end_ns = time.monotonic_ns()
        assert far.failure == "" and (time.monotonic_ns() - end_ns) / 1e9 < 15.0
        found = far.found(start_ns, end_ns)
        for of, number in zip(found, (2, 3), strict=True):
            assert of.number == number and of.link.after is not None
            assert of.link.before.far.host == f"host-{number}"
            assert of.meanwhile is not None and of.meanwhile.count >= 5
            assert of.ahead_ns is not None and of.error_ns is not None and abs(of.ahead_ns) <= of.error_ns
            series = read_recording(Path(of.monitors_path)).get("server", "cpu_s_total")
            assert series is not None and series.reaches(start_ns, end_ns)
            assert "exchanges" not in of.model_dump_json() and one.watch.secret not in of.model_dump_json()
        figures = far.figures(found)
        assert [row["host"] for row in figures] == ["host-2", "host-3"]
        assert all(row["round_trip_before_ms"] > 0 and row["clock_error_ms"] > 0 for row in figures)
        assert "host-3: others used it" in far.warnings(found)


def test_a_server_that_ends_is_told_with_its_name(tmp_path: Path) -> None:
    """While the load lasts, by who watches it there; nothing of the load counts then."""
    with server(tmp_path) as (process, handle), watched(tmp_path, 2, handle) as one:
        with Following((one,), tmp_path, context(tmp_path)) as far:
            process.kill()
            process.wait()
            deadline_s = time.monotonic() + 20
            while not far.over and time.monotonic() < deadline_s:
                time.sleep(0.05)
            assert far.over
        assert far.failure.startswith("Replica 2 of 3 () on host-2: its server ")
        assert "while the load lasted" in far.failure


def test_a_watch_that_is_gone_is_a_lost_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited whether the job has lost that device, too: by then it is run again, and this is no failure of its
    own."""
    asked: list[str] = []

    def token(device: str, folder: Path) -> int | None:
        asked.append(device)
        return 1 if len(asked) > 4 else None

    monkeypatch.setattr(lease_elsewhere, "_LEASE_S", 30.0)
    monkeypatch.setattr(lease_elsewhere, "token_of", token)
    with server(tmp_path) as (_, handle):
        command = [sys.executable, "-m", beside.__name__, str(tmp_path / "order.json")]
        order = Order(
            address="127.0.0.1", host="host-2", home="2" * 32, server=handle, device="cpu",
            recording_path=str(tmp_path / "far.parquet"), told_path=str(tmp_path / "told"), patience_s=30.0,
        )  # fmt: skip
        (tmp_path / "order.json").write_text(order.model_dump_json())
        process = subprocess.Popen(command)
        try:
            while not (tmp_path / "told").exists() or not (tmp_path / "told").stat().st_size:
                time.sleep(0.05)
            watch = FarWatch.of(Invitation.read(str(tmp_path / "told")), order.recording_path)
            replica = Replica(
                number=2, of=2, device_id="d", cores=(0,), server=handle, host="host-2",
                endpoint=Endpoint(protocol="http", host="127.0.0.1", port=1, model_name="m"),
            )  # fmt: skip
            far_replica = FarReplica(
                replica=replica, watch=watch, difference_ratio=0.0, version="1", hardware={}, system={},
                cold_start=ColdStart(process_ms=1, model_load_ms=1, first_answer_ms=1, total_ms=3),
            )  # fmt: skip
            with Following((far_replica,), tmp_path, context(tmp_path)) as far:
                for child in (
                    *psutil.Process(process.pid).children(recursive=True),
                    psutil.Process(process.pid),
                ):
                    child.kill()
                deadline_s = time.monotonic() + 20
                while not far.over and time.monotonic() < deadline_s:
                    time.sleep(0.05)
            assert "was lost" in far.failure and "Replica 2 of 2 (d) on host-2" in far.failure
            assert len(asked) > 4
        finally:
            process.kill()
            process.wait()


def test_a_run_that_is_cancelled_as_its_load_ends_was_cancelled(tmp_path: Path) -> None:
    """Nobody waits for links and recordings then; it is no failure of the load, whatever is asked of it later."""
    cancelled: list[bool] = []
    ctx = Context(data_dir=tmp_path / "data", base_dir=tmp_path, cancelled=lambda: bool(cancelled))
    with server(tmp_path) as (_, handle), watched(tmp_path, 2, handle) as one:
        with Following((one,), tmp_path, ctx) as far:
            cancelled.append(True)
        assert far.failure == ""
        with pytest.raises(CancelledError, match="cancelled before the recordings"):
            far.found(0, 1)


def test_two_replicas_of_one_host_are_refused(tmp_path: Path) -> None:
    """Whichever two; nothing is watched then, and nobody stays connected."""
    with (
        server(tmp_path) as (_, handle),
        watched(tmp_path, 2, handle) as one,
        watched(tmp_path, 3, handle, home="2" * 32) as other,
        pytest.raises(StageError, match="Two replicas came to one host"),
        Following((one, other), tmp_path, context(tmp_path)),
    ):
        pass


def test_without_replicas_elsewhere_nothing_is_asked(tmp_path: Path) -> None:
    """Neither PerfDB nor anybody."""
    with Following((), tmp_path / "absent", context(tmp_path)) as far:
        assert not far.over
    assert far.failure == "" and far.found(0, 1) == ()
