"""The second client host of a load, for real but on one machine: orders, senders, records, and what ends it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from inferbench_tasks import settings
from inferbench_tasks.contracts.link import LinkEnd
from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.null_server import NullHttp, answer_message
from inferbench_tasks.loadgen.outcome import Outcome, apply_load
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.records import read_samples
from inferbench_tasks.networks.links import measure as measuring
from inferbench_tasks.networks.links.far_side import FarSide
from inferbench_tasks.stages.senders import far_senders, second_client, second_part
from inferbench_tasks.stages.senders.far_watch import FarWatch
from inferbench_tasks.stages.senders.handles import Standby
from inferbench_tasks.stages.senders.second_client import SecondClient
from tests.far_side import listening
from tests.load_servers import ANSWER_BYTES, FaultyHttp, endpoint, http_answer, load_plan, serving

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
ME = LinkEnd(host="one", home="o" * 32, address="")
OPEN = {"kind": "poisson", "rate_rps": 80}


@dataclass
class Two:
    """The second host's side, in threads of the test, and what it is told to send."""

    folder: Path
    senders: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    #: What the second host draws otherwise.
    differs: dict[str, Any] = field(default_factory=dict)
    ends: list[Any] = field(default_factory=list)

    def plan(self, side: str, port: int, **more: Any) -> LoadPlan:
        folder = self.folder / side
        folder.mkdir(exist_ok=True)
        values = {"arrivals": OPEN, "duration_s": 3.0, "warmup_s": 0.5, "shards": 2, **self.options, **more}
        return load_plan(folder, endpoint("http", port), **values)


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Two:
    monkeypatch.setenv(settings.ONE_MACHINE_AS_HOSTS, "1")
    monkeypatch.setattr(measuring, "STREAM_S", 0.1)
    monkeypatch.setattr(measuring, "MOST_QUESTIONS", 50)
    nothing = SimpleNamespace(model_dump=dict)
    monkeypatch.setattr("inferbench_tasks.loadgen.ceiling.check_ceiling", lambda *order, **more: nothing)
    monkeypatch.setattr("inferbench_tasks.stages.one_load.answer_bytes", lambda *order: 1)
    return Two(tmp_path)


@pytest.fixture
def connected(two: Two, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """``connected(port)``: the first host's side of a load on the server at that port."""
    threads: list[threading.Thread] = []
    far_sides: list[Any] = []

    def connect(port: int) -> SecondClient:
        link = listening(8.0)
        far, _ = link.__enter__()
        far_sides.append(link)
        traffic = SimpleNamespace(allow_unsafe_load=False, samples_per_request=1, client_hosts=2)
        load = SimpleNamespace(
            job=SimpleNamespace(traffic=traffic),
            generate=SimpleNamespace(requests=SimpleNamespace(processing=None)),
            serve=SimpleNamespace(endpoint=None, far_second=SimpleNamespace(invitation=far.invitation)),
        )
        folder = two.folder / "second" / "load"
        monkeypatch.setattr(second_part, "plan_of", lambda *order: two.plan("second", port, **two.differs))
        order: Any = SimpleNamespace(
            load=load, folder=str(folder), data_dir=str(two.folder), base_dir=str(two.folder), host="two",
            home="t" * 32, told_path=str(two.folder / "told"), device_id="", token=None, patience_s=60.0,
        )  # fmt: skip
        side = FarSide("127.0.0.1", 0, "two", "t" * 32)
        whole = two.plan("first", port)

        def serve() -> None:
            try:
                with side:
                    far_senders.serve(order, side)
                two.ends.append("done")
            except Exception as error:  # noqa: BLE001 - the test looks at it
                two.ends.append(error)

        threads.append(threading.Thread(target=serve, daemon=True))
        threads[0].start()
        standby = Standby(reached=FarWatch.of(side.invitation, ""), host="two", senders=1)
        return SecondClient(standby, whole, 2)

    yield connect
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    for one in far_sides:
        one.__exit__(None, None, None)


def sent(beside: SecondClient, folder: Path, **more: Any) -> Outcome:
    return apply_load(beside.plan, folder / "samples.parquet", applying=beside.apply, **more)


def prepared_and_sent(beside: SecondClient, folder: Path) -> Outcome:
    beside.prepare(ME, lambda: False)
    return sent(beside, folder)


def good() -> NullHttp:
    return NullHttp(answer_message("http", ANSWER_BYTES))


def test_both_parts_are_one_load(two: Two, connected: Any, tmp_path: Path) -> None:
    """Each request of the schedule once, at its moment, from both; the certificate is of all of it, and names the
    hosts; the second host keeps none of it."""
    with serving(good) as server, connected(server.port) as beside:
        beside.prepare(ME, lambda: False)
        outcome = sent(beside, tmp_path)
        assert outcome.applied.problem is None
        second, _ = beside.closed(tmp_path)
    whole = two.plan("first", server.port)
    certificate = outcome.certificate(whole)
    held = {check.name for check in certificate.checks if not check.ok}
    exact = {
        "senders",
        "unrecorded",
        "schedule_moved",
        "sent_early",
        "repeated_records",
        "impossible_records",
    }
    assert not held & exact, certificate.reasons
    table = read_samples(tmp_path / "samples.parquet")
    paths = [segment.offsets_path for segment in whole.segments]
    planned = np.concatenate([np.load(path) for path in paths if path]) + outcome.applied.start_ns
    assert np.array_equal(np.asarray(table["intended_ns"]), planned)
    assert np.array_equal(np.sort(np.asarray(table["request_id"])), np.arange(len(planned)))
    assert set(np.asarray(table["shard"]).tolist()) == {0, 1} and second.shards == (1,)
    assert [usage.host for usage in outcome.applied.usages] == [beside.me, "two"]
    assert abs(second.ahead_ns) <= second.error_ns < 20_000_000  # one clock, which is 0 ahead of itself
    hosts = beside.senders(second)
    assert [one.shards for one in hosts] == [range(1), range(1, 2)] and hosts[0].misplaced_ms == 0
    assert Path(second.monitors_path).stat().st_size > 0 and second.link.after is not None
    wait_for(lambda: two.ends == ["done"])
    assert not list((two.folder / "second" / "load").glob("*.spool"))


def wait_for(so: Any, limit_s: float = 20.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while not so():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_another_schedule_is_refused_before_anything_is_sent(two: Two, connected: Any) -> None:
    """Of another version, say: each would send a part of another load."""
    two.differs = {"seed": 7}
    requests: list[int] = []
    script = lambda number: requests.append(number) or http_answer()  # type: ignore[func-returns-value]  # noqa: E731
    with (
        serving(lambda: FaultyHttp(script)) as server,
        pytest.raises(LoadError, match="second client host, two: it draws another schedule"),
        connected(server.port) as beside,
    ):
        beside.prepare(ME, lambda: False)
    assert requests == []


def test_one_host_is_no_two(two: Two, connected: Any) -> None:
    """By its data directory, or its kernel."""
    with (
        serving(good) as server,
        pytest.raises(LoadError, match="Both parts of the load came to one host: two"),
        connected(server.port) as beside,
    ):
        beside.prepare(ME.model_copy(update={"home": "t" * 32, "host": "two"}), lambda: False)


def test_what_ends_one_part_early_ends_the_load(two: Two, connected: Any, tmp_path: Path) -> None:
    """A server that fails: the load is stopped on both, and what both had sent by then is kept."""
    two.options = {"duration_s": 20.0, "max_error_ratio": 0.1}
    with (
        serving(lambda: FaultyHttp(lambda number: http_answer("500 Oh"))) as server,
        connected(server.port) as beside,
    ):
        beside.prepare(ME, lambda: False)
        began_s = time.monotonic()
        outcome = sent(beside, tmp_path, cancelled=lambda: beside.over)
    assert outcome.applied.problem is None and not outcome.applied.cancelled
    assert (
        outcome.applied.stopped_early is not None and "requests had failed" in outcome.applied.stopped_early
    )
    assert time.monotonic() - began_s < 15 and len(outcome.applied.usages) == 2
    assert set(np.asarray(read_samples(tmp_path / "samples.parquet")["shard"]).tolist()) == {0, 1}


def test_a_load_that_is_cancelled_ends_the_other_part(two: Two, connected: Any, tmp_path: Path) -> None:
    """The connection ends, and with it whatever the second host sent; what it recorded stays there."""
    two.options = {"duration_s": 60.0}
    began = time.monotonic()
    with serving(good) as server, connected(server.port) as beside:
        beside.prepare(ME, lambda: False)
        outcome = sent(beside, tmp_path, cancelled=lambda: time.monotonic() - began > 15)
    assert outcome.applied.cancelled and outcome.applied.problem is None
    wait_for(lambda: bool(two.ends))
    assert list((two.folder / "second" / "load").glob("*.spool"))


def test_a_start_that_can_not_be_told_in_time_is_none(
    two: Two, connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither part is sent: a part that begins late would be another load."""
    monkeypatch.setattr(second_client, "_START_AFTER_NS", 1_000_000)
    with (
        serving(good) as server,
        pytest.raises(LoadError, match="two could not be told in time when to begin"),
        connected(server.port) as beside,
    ):
        prepared_and_sent(beside, tmp_path)
    wait_for(lambda: bool(two.ends))
    assert not (two.folder / "second" / "load" / "part").exists()
