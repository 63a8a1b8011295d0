"""Further client hosts of a load, for real but on one machine: orders, senders, records, and what ends them."""

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
from inferbench_tasks.stages.one_load import require_sent
from inferbench_tasks.stages.senders import away_load, far_senders, led_host, led_part, together
from inferbench_tasks.stages.senders.far_watch import FarWatch
from inferbench_tasks.stages.senders.handles import Standby
from inferbench_tasks.stages.senders.together import Together
from tests.far_side import listening
from tests.load_servers import ANSWER_BYTES, FaultyHttp, endpoint, http_answer, load_plan, serving

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
ME = LinkEnd(host="one", home="o" * 32, address="")
#: What the sender of a busy machine may fail at is left out.
EXACT = {
    "senders",
    "unrecorded",
    "schedule_moved",
    "sent_early",
    "repeated_records",
    "impossible_records",
}
OPEN = {"kind": "poisson", "rate_rps": 80}


@dataclass
class Two:
    """The further hosts' sides, in threads of the test, and what they are told to send."""

    folder: Path
    options: dict[str, Any] = field(default_factory=dict)
    #: Whom the first one leads.
    names: tuple[str, ...] = ("two",)
    #: Where their parts go, if not to the first one's server.
    port: int | None = None
    #: What these draw otherwise.
    differs: dict[str, Any] = field(default_factory=dict)
    ends: list[Any] = field(default_factory=list)
    #: How long the first one's server waits for whoever measures the way to it.
    patience_s: float = 8.0

    def plan(self, side: str, port: int, **more: Any) -> LoadPlan:
        folder = self.folder / side
        folder.mkdir(exist_ok=True)
        values = {
            "arrivals": OPEN,
            "duration_s": 3.0,
            "warmup_s": 0.5,
            "shards": 1 + len(self.names),
            **self.options,
            **more,
        }
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

    def waiting(number: int, name: str) -> Standby:
        link = listening(two.patience_s if number == 1 else 30.0)
        far, _ = link.__enter__()
        far_sides.append(link)
        traffic = SimpleNamespace(
            allow_unsafe_load=False, samples_per_request=1, client_hosts=1 + len(two.names)
        )
        watch = SimpleNamespace(invitation=far.invitation)
        load = SimpleNamespace(
            job=SimpleNamespace(traffic=traffic),
            generate=SimpleNamespace(requests=SimpleNamespace(processing=None)),
            serve=SimpleNamespace(endpoint=None, far_further=[watch] * number),
        )
        order: Any = SimpleNamespace(
            load=load, number=number, folder=str(two.folder / name / "load"), data_dir=str(two.folder),
            base_dir=str(two.folder), host=name, home=name[1] * 32, told_path=str(two.folder / f"told-{name}"),
            device_id="", token=None, patience_s=60.0,
        )  # fmt: skip
        side = FarSide("127.0.0.1", 0, name, name[1] * 32)

        def serve() -> None:
            try:
                with side:
                    far_senders.serve(order, side)
                two.ends.append("done")
            except Exception as error:  # noqa: BLE001 - the test looks at it
                two.ends.append(error)

        threads.append(threading.Thread(target=serve, daemon=True))
        threads[-1].start()
        return Standby(reached=FarWatch.of(side.invitation, ""), host=name, senders=1)

    def connect(port: int) -> Together:
        def drawn(inp: Any, context: Any, folder: Path, *more: Any) -> LoadPlan:
            return two.plan(folder.parent.name, two.port or port, **two.differs)

        monkeypatch.setattr(led_part, "plan_of", drawn)
        whole = two.plan("first", port)
        return Together([waiting(number, name) for number, name in enumerate(two.names, 1)], whole)

    yield connect
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    for one in far_sides:
        one.__exit__(None, None, None)


def sent(beside: Together, folder: Path, **more: Any) -> Outcome:
    return apply_load(beside.plan, folder / "samples.parquet", applying=beside.apply, **more)


def measured(outcome: Outcome) -> tuple[int, int]:
    return outcome.measure_start_ns, outcome.measure_end_ns


def prepared_and_sent(beside: Together, folder: Path) -> Outcome:
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
        ((second, _),) = beside.closed(tmp_path, measured(outcome))
    whole = two.plan("first", server.port)
    certificate = outcome.certificate(whole)
    held = {check.name for check in certificate.checks if not check.ok}
    assert not held & EXACT, certificate.reasons
    table = read_samples(tmp_path / "samples.parquet")
    paths = [segment.offsets_path for segment in whole.segments]
    planned = np.concatenate([np.load(path) for path in paths if path]) + outcome.applied.start_ns
    assert np.array_equal(np.asarray(table["intended_ns"]), planned)
    assert np.array_equal(np.sort(np.asarray(table["request_id"])), np.arange(len(planned)))
    assert set(np.asarray(table["shard"]).tolist()) == {0, 1} and second.shards == (1,)
    assert [usage.host for usage in outcome.applied.usages] == [beside.me, "two"]
    assert abs(second.ahead_ns) <= second.error_ns < 20_000_000  # one clock, which is 0 ahead of itself
    hosts = beside.senders
    assert [one.shards for one in hosts] == [range(1), range(1, 2)] and hosts[0].misplaced_ms == 0
    assert Path(second.monitors_path).stat().st_size > 0 and second.link.after is not None
    assert second.meanwhile is not None and 1 <= second.meanwhile.count < len(second.exchanges)
    wait_for(lambda: two.ends == ["done"])
    assert not list((two.folder / "two" / "load").glob("*.spool"))


def test_three_parts_are_one_load(two: Two, connected: Any, tmp_path: Path) -> None:
    """Of three hosts each sends every third request of the schedule, all from one instant; no request is missing or
    moved, and what is not known of two clocks adds up."""
    two.names, two.options = ("two", "three"), {"duration_s": 2.0}
    with serving(good) as server, connected(server.port) as beside:
        beside.prepare(ME, lambda: False)
        outcome = sent(beside, tmp_path)
        assert outcome.applied.problem is None
        further = [host for host, _ in beside.closed(tmp_path, measured(outcome))]
    whole = two.plan("first", server.port)
    certificate = outcome.certificate(whole)
    assert not {check.name for check in certificate.checks if not check.ok} & EXACT, certificate.reasons
    table = read_samples(tmp_path / "samples.parquet")
    offsets = [np.load(segment.offsets_path) for segment in whole.segments if segment.offsets_path]
    planned = np.concatenate(offsets) + outcome.applied.start_ns
    number, shard = (np.asarray(table[name]) for name in ("request_id", "shard"))
    assert np.array_equal(np.asarray(table["intended_ns"]), planned)
    assert np.array_equal(number, np.arange(len(planned)))
    turns = np.concatenate([np.arange(len(one)) % 3 for one in offsets])
    assert np.array_equal(shard, turns)
    assert [host.shards for host in further] == [(1,), (2,)]
    assert [usage.host for usage in outcome.applied.usages] == [beside.me, "two", "three"]
    assert {Path(host.monitors_path).name for host in further} == {
        "second-client-monitors.parquet", "third-client-monitors.parquet"
    }  # fmt: skip
    assert all(abs(host.ahead_ns) <= host.error_ns < 50_000_000 for host in further)
    wait_for(lambda: two.ends == ["done", "done"])


def test_a_lost_host_of_three_is_named_and_nothing_of_the_load_goes_on(
    two: Two, connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third one goes away while all send: the load fails with its name, and the second one has ended its part
    before anything else is done about it."""
    two.names, two.options = ("two", "three"), {"duration_s": 600.0}
    answer = led_part.LedPart.answer

    def going(part: Any, words: str) -> bytes:
        said = answer(part, words)
        if part._order.number == 2 and b'"sending"' in said and time.monotonic_ns() > part._start_ns:
            raise ConnectionError("it is gone")
        return said

    monkeypatch.setattr(led_part.LedPart, "answer", going)
    with serving(good) as server, connected(server.port) as beside:
        beside.prepare(ME, lambda: False)
        outcome = sent(beside, tmp_path, cancelled=lambda: beside.over)
        wait_for(lambda: len(two.ends) == 2, 120.0)  # though this host has not left yet
    problem = outcome.applied.problem or ""
    assert (
        problem.startswith("The third client host, three: ")
        and "was lost" in problem
        and "two" not in problem
    )
    with pytest.raises(LoadError, match="records are kept in"):
        require_sent(outcome)
    assert sum(isinstance(end, ConnectionError) for end in two.ends) == 1
    assert not (two.folder / "two" / "load" / "part").exists()


def wait_for(so: Any, limit_s: float = 20.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while not so():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_another_schedule_is_refused_before_anything_is_sent(two: Two, connected: Any) -> None:
    """Of another version, say: each would send a part of another load."""
    two.differs, two.patience_s = {"seed": 7}, 0.5
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
    two.patience_s = 0.5  # nobody comes
    with (
        serving(good) as server,
        pytest.raises(LoadError, match="Two parts of the load came to one host: two"),
        connected(server.port) as beside,
    ):
        beside.prepare(ME.model_copy(update={"home": "w" * 32, "host": "two"}), lambda: False)


def test_what_ends_one_part_early_ends_the_load(two: Two, connected: Any, tmp_path: Path) -> None:
    """A server that fails: the load is stopped on both, and what both had sent by then is kept."""
    two.options = {"duration_s": 600.0, "max_error_ratio": 0.1}
    with (
        serving(lambda: FaultyHttp(lambda number: http_answer("500 Oh"))) as server,
        connected(server.port) as beside,
    ):
        beside.prepare(ME, lambda: False)
        outcome = sent(beside, tmp_path, cancelled=lambda: beside.over)
    assert outcome.applied.problem is None and not outcome.applied.cancelled
    assert (
        outcome.applied.stopped_early is not None and "requests had failed" in outcome.applied.stopped_early
    )
    assert outcome.applied.end_ns - outcome.applied.start_ns < 300e9 and len(outcome.applied.usages) == 2
    assert set(np.asarray(read_samples(tmp_path / "samples.parquet")["shard"]).tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("limit", "heard", "leader"),
    [(0.6, True, False), (0.6, True, True), (0.4, True, False), (0.4, False, False)],
)
def test_failures_are_judged_over_the_whole_load(
    two: Two, connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: float, heard: bool,
    leader: bool,
) -> None:  # fmt: skip
    """All requests of one of two hosts fail, the leading one's too, which is half of the load: it goes on below a limit
    of 60%, with a word on that host, and ends by one of 40%; by its records, where nothing was heard while all sent."""
    two.options = {
        "max_error_ratio": limit,
        "duration_s": 600.0 if heard and limit < 0.5 else 8.0 if leader else 3.0,
    }
    if not heard:
        monkeypatch.setattr(led_host, "ASK_EVERY", 1_000_000)
    with (
        serving(good) as server,
        serving(lambda: FaultyHttp(lambda number: http_answer("500 Oh"))) as other,
        connected(other.port if leader else server.port) as beside,
    ):
        two.port = server.port if leader else other.port
        beside.prepare(ME, lambda: False)
        outcome = sent(beside, tmp_path, cancelled=lambda: beside.over)
        whole = two.plan("first", server.port)
        assert outcome.applied.problem is None
        beside.closed(tmp_path, measured(outcome))
    judged = away_load._judged_by_host(outcome.certificate(whole), whole, outcome, beside)
    right, wrong = reversed(judged.figures["sender_hosts"]) if leader else judged.figures["sender_hosts"]
    assert right["errors"] == 0 and wrong["errors"] == wrong["requests"] > 0
    named = f"requests of {wrong['host']} failed, more than load.max_error_ratio"
    assert [words for words in judged.warnings if named in words]
    stopped = outcome.applied.stopped_early or ""
    if limit > 0.5:
        assert stopped == "" and right["requests"] + wrong["requests"] > 150
    else:
        failed, of = (int(word) for word in stopped.split()[:3:2])
        assert limit * of < failed < 0.7 * of and "load.max_error_ratio is 0.4" in stopped and of >= 50


def test_a_load_that_is_cancelled_ends_the_other_part(two: Two, connected: Any, tmp_path: Path) -> None:
    """The connection ends, and with it whatever the second host sent; what it recorded stays there."""
    two.options = {"duration_s": 600.0}
    spools = (two.folder / "two" / "load").glob

    def recorded() -> bool:
        return any(path.stat().st_size > 16_384 for path in spools("shard-*.spool"))  # more than its head

    with serving(good) as server, connected(server.port) as beside:
        beside.prepare(ME, lambda: False)
        outcome = sent(beside, tmp_path, cancelled=recorded)
    assert outcome.applied.cancelled and outcome.applied.problem is None
    wait_for(lambda: bool(two.ends))
    assert recorded()


def test_a_start_that_can_not_be_told_in_time_is_none(
    two: Two, connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither part is sent: a part that begins late would be another load."""
    monkeypatch.setattr(together, "_START_AFTER_NS", 1_000_000)
    with (
        serving(good) as server,
        pytest.raises(LoadError, match="two could not be told in time when to begin"),
        connected(server.port) as beside,
    ):
        prepared_and_sent(beside, tmp_path)
    wait_for(lambda: bool(two.ends))
    assert not (two.folder / "two" / "load" / "part").exists()
