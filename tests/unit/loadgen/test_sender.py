"""The parts of a sender by themselves: what leaves when, what is recorded, and what happens at the edges."""

from __future__ import annotations

import array
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from inferbench_tasks.clients.base import Call, Payload
from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.closed_loop import ClosedLoop
from inferbench_tasks.loadgen.dispatcher import Dispatcher
from inferbench_tasks.loadgen.heartbeat import Heartbeat
from inferbench_tasks.loadgen.open_loop import OpenLoop
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.spool import Recorder, Spool
from inferbench_tasks.timing.timerfd import Timer
from tests.load_servers import endpoint, load_plan

PAYLOADS = [Payload(b"0123456789", index, 1) for index in range(3)]
MS = 1_000_000


def on_loop(work: Callable[[asyncio.AbstractEventLoop], Awaitable[None]]) -> None:
    """Run on the loop that senders use."""

    async def run() -> None:
        await asyncio.wait_for(work(asyncio.get_running_loop()), 30)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


class Client:
    """Takes calls up to ``room`` and keeps them until it is told to answer."""

    def __init__(self, sink: Dispatcher, room: int = 10**9) -> None:
        self.sink = sink
        self.room = room
        self.flying: list[Call] = []
        self.sent: list[Call] = []
        self.abandoned: list[Call] = []
        self.wanted = 0

    def send(self, call: Call) -> bool:
        if len(self.flying) >= self.room:
            return False
        call.sent_ns = time.monotonic_ns()
        self.flying.append(call)
        self.sent.append(call)
        return True

    def want(self, waiting: int) -> None:
        self.wanted = waiting

    def abandon(self, call: Call) -> None:
        self.abandoned.append(call)
        self.flying.remove(call)

    def answer(self, status: str = "ok") -> None:
        call = self.flying.pop(0)
        self.sink.finish(call, status, time.monotonic_ns())


def dispatcher(
    folder: Path, room: int = 10**9, timeout_ms: float = 1000.0
) -> tuple[Dispatcher, Any, Recorder]:
    """A dispatcher on such a client."""
    recorder = Recorder(folder / "0.spool")
    sink = Dispatcher(recorder, round(timeout_ms * MS))
    client = Client(sink, room)
    sink.client = client  # type: ignore[assignment]
    return sink, client, recorder


def records(recorder: Recorder) -> list[tuple[int, str]]:
    """Request ids and statuses, in the order of their ends."""
    recorder.close()
    spool = Spool(recorder.path)
    return [(int(row["request_id"]), spool.statuses[row["status"]]) for row in spool.read()]


def call(number: int, intended_ns: int | None = None) -> Call:
    """A request that is to leave now."""
    return Call(number, time.monotonic_ns() if intended_ns is None else intended_ns, PAYLOADS[0])


def test_calls_without_room_wait_in_their_order(tmp_path: Path) -> None:
    """Nobody overtakes; each is recorded once."""
    sink, client, recorder = dispatcher(tmp_path, room=2)
    for number in range(5):
        sink.submit(call(number))
    assert [c.request_id for c in client.flying] == [0, 1]
    assert client.wanted == 3
    while client.flying:
        client.answer()
    assert [c.request_id for c in client.sent] == [0, 1, 2, 3, 4]
    assert sink.outstanding == 0
    assert records(recorder) == [(number, "ok") for number in range(5)]


def test_an_end_counts_once(tmp_path: Path) -> None:
    """A late answer to a request that has timed out changes nothing."""
    sink, client, recorder = dispatcher(tmp_path, timeout_ms=1)
    sink.submit(call(0))
    late = client.flying[0]
    sink.expire(time.monotonic_ns() + 2 * MS)
    assert client.abandoned == [late]
    sink.finish(late, "ok", time.monotonic_ns())
    assert sink.outstanding == 0
    assert records(recorder) == [(0, "timeout")]


def test_what_could_not_be_sent_within_the_timeout_is_dropped(tmp_path: Path) -> None:
    """And not where all requests wait for their turn from the start."""
    sink, _, recorder = dispatcher(tmp_path, room=0, timeout_ms=5)
    sink.submit(call(0))
    sink.drops = False
    sink.expire(time.monotonic_ns() + 10 * MS)
    assert sink.outstanding == 1
    sink.drops = True
    sink.expire(time.monotonic_ns() + 10 * MS)
    assert records(recorder) == [(0, "dropped")]


def test_a_request_that_the_server_did_not_look_at_is_sent_once_more(tmp_path: Path) -> None:
    """Before everything that waits; one that is over by then is not."""
    sink, client, recorder = dispatcher(tmp_path, room=1)
    for number in range(3):
        sink.submit(call(number))
    first = client.flying.pop(0)
    sink.again(first)
    assert [c.request_id for c in client.flying] == [0]
    while client.flying:
        client.answer()
    assert records(recorder) == [(0, "ok"), (1, "ok"), (2, "ok")]


def test_an_unreachable_server_fails_what_waits_and_says_why(tmp_path: Path) -> None:
    """With the first words of each kind of failure."""
    sink, _, recorder = dispatcher(tmp_path, room=0)
    for number in range(3):
        sink.submit(call(number))
    sink.unreachable("nobody listens")
    sink.unreachable("other words")
    assert sink.explanations == {"connection": "nobody listens"}
    assert records(recorder) == [(number, "connection") for number in range(3)]


def test_a_cancelled_load_ends_every_request(tmp_path: Path) -> None:
    """What waits was dropped, what is under way was cancelled: every one has its record."""
    sink, _, recorder = dispatcher(tmp_path, room=2)
    for number in range(4):
        sink.submit(call(number))
    sink.cancel()
    assert sorted(records(recorder)) == [(0, "cancelled"), (1, "cancelled"), (2, "dropped"), (3, "dropped")]
    assert sink.outstanding == 0


def test_an_open_loop_sends_its_schedule_and_nothing_else(tmp_path: Path) -> None:
    """Ids in steps, intended times as planned, never early; a past schedule is sent at once, in order."""
    sink, client, recorder = dispatcher(tmp_path)

    async def work(loop: asyncio.AbstractEventLoop) -> None:
        now = time.monotonic_ns()
        times = [now - 5 * MS] * 300 + [now + (1 + i) * MS for i in range(20)]
        driver = OpenLoop(loop, sink, PAYLOADS, array.array("q", times), 7, 3)
        driver.begin()
        while not driver.finished:
            await asyncio.sleep(0.002)
        driver.stop()
        assert [c.intended_ns for c in client.sent] == times
        assert [c.request_id for c in client.sent] == [7 + 3 * i for i in range(320)]
        assert all(c.sent_ns >= c.intended_ns for c in client.sent)
        assert all(c.payload is PAYLOADS[c.request_id % 3] for c in client.sent)

    on_loop(work)
    recorder.close()


def test_a_held_up_open_loop_does_not_move_its_schedule(tmp_path: Path) -> None:
    """After a stall everything that was due leaves at once, with the times that were intended."""
    sink, client, recorder = dispatcher(tmp_path)

    async def work(loop: asyncio.AbstractEventLoop) -> None:
        now = time.monotonic_ns()
        times = [now + i * MS for i in range(1, 60)]
        driver = OpenLoop(loop, sink, PAYLOADS, array.array("q", times), 0, 1)
        driver.begin()
        time.sleep(0.05)  # the loop itself stands still
        while not driver.finished:
            await asyncio.sleep(0.002)
        driver.stop()
        assert [c.intended_ns for c in client.sent] == times

    on_loop(work)
    recorder.close()


def test_an_empty_share_of_a_schedule_is_finished_from_the_start(tmp_path: Path) -> None:
    """A shard without a request is finished, where there are more shards than requests."""
    sink, client, recorder = dispatcher(tmp_path)

    async def work(loop: asyncio.AbstractEventLoop) -> None:
        driver = OpenLoop(loop, sink, PAYLOADS, array.array("q"), 0, 1)
        driver.begin()
        assert driver.finished
        driver.stop()

    on_loop(work)
    assert not client.sent
    recorder.close()


@pytest.mark.parametrize("think_ms", [0, 2])
def test_a_closed_loop_keeps_its_users_busy_and_no_more(tmp_path: Path, think_ms: int) -> None:
    """Never more in flight than users; an answer (or a pause after it) makes the next request; the quota holds."""
    sink, client, recorder = dispatcher(tmp_path)

    async def work(loop: asyncio.AbstractEventLoop) -> None:
        now = time.monotonic_ns()
        driver = ClosedLoop(
            loop, sink, PAYLOADS, users=4, think_time_ns=think_ms * MS, start_ns=now, end_ns=now + 20_000 * MS,
            first_id=0, id_step=1, quota=50,
        )  # fmt: skip
        driver.begin()
        while not driver.finished or client.flying:
            assert len(client.flying) <= 4
            if client.flying:
                client.answer("ok" if len(client.sent) % 7 else "timeout")
            await asyncio.sleep(0)
        driver.stop()
        assert driver.ended_ns > 0

    on_loop(work)
    assert len(records(recorder)) == 50
    calls = client.sent
    assert [c.request_id for c in calls] == list(range(50))
    assert all(c.sent_ns >= c.intended_ns for c in calls)


def test_a_closed_loop_asks_nothing_after_its_end(tmp_path: Path) -> None:
    """Answers that come later have no successor."""
    sink, client, recorder = dispatcher(tmp_path)

    async def work(loop: asyncio.AbstractEventLoop) -> None:
        now = time.monotonic_ns()
        driver = ClosedLoop(
            loop, sink, PAYLOADS, users=2, think_time_ns=0, start_ns=now, end_ns=now + 20 * MS, first_id=0,
            id_step=1, quota=None,
        )  # fmt: skip
        driver.begin()
        while not driver.finished:
            await asyncio.sleep(0.005)
        count = len(client.sent)
        while client.flying:
            client.answer()
        assert len(client.sent) == count
        driver.stop()

    on_loop(work)
    recorder.close()


def test_a_timer_fires_at_its_time_and_not_before() -> None:
    """The last time given counts; a time that has passed fires at once; a closed one never."""
    fired: list[int] = []

    async def work(loop: asyncio.AbstractEventLoop) -> None:
        timer = Timer(loop, lambda: fired.append(time.monotonic_ns()))
        due = time.monotonic_ns() + 20 * MS
        timer.at(due - 15 * MS)
        timer.at(due)
        while not fired:
            await asyncio.sleep(0.001)
        assert fired[0] >= due
        timer.at(1)
        while len(fired) < 2:
            await asyncio.sleep(0.001)
        timer.at(time.monotonic_ns() + MS)
        timer.close()
        timer.close()
        await asyncio.sleep(0.02)
        assert len(fired) == 2

    on_loop(work)


def test_a_heartbeat_sees_how_long_the_loop_was_held_up() -> None:
    """Within the measured window, and only there."""
    stalls_ns: dict[str, int] = {}

    async def work(loop: asyncio.AbstractEventLoop) -> None:
        for name, start_ms in (("inside", 0), ("before", 10_000)):
            now = time.monotonic_ns()
            beat = Heartbeat(loop, 0, now + start_ms * MS, now + 20_000 * MS, lambda _: None)
            beat.begin()
            await asyncio.sleep(0.02)
            time.sleep(0.08)
            await asyncio.sleep(0.02)
            stalls_ns[name] = beat.usage().max_stall_ns
            beat.stop()

    on_loop(work)
    assert stalls_ns["inside"] >= 60 * MS
    assert stalls_ns["before"] == 0


@pytest.mark.parametrize("protocol", ["http", "grpc", "grpc_tfs"])
def test_a_rehearsed_sender_imports_nothing_more_for_its_first_answer(tmp_path: Path, protocol: str) -> None:
    """What the first answer needs is there before the start: no sender stands still for an import."""
    plan: LoadPlan = load_plan(
        tmp_path, endpoint(protocol, 1), arrivals={"kind": "closed_loop", "concurrency": 1}
    )
    plan.path.write_text(plan.model_dump_json())
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "import inferbench_tasks.loadgen.shard\n"
        "from inferbench_tasks.clients.grpc_message import frame\n"
        "from inferbench_tasks.clients.http2 import HeaderBlocks, literal\n"
        "from inferbench_tasks.loadgen.null_server import answer_message\n"
        "from inferbench_tasks.loadgen.payloads import answer_check, build_payloads\n"
        "from inferbench_tasks.loadgen.plan import LoadPlan\n"
        "from inferbench_tasks.loadgen.rehearsal import rehearse\n"
        "plan = LoadPlan.model_validate_json(Path(sys.argv[1]).read_bytes())\n"
        "build_payloads(plan)\n"
        "rehearse(plan)\n"
        "before = set(sys.modules)\n"
        "raw = answer_message(plan.endpoint.protocol, 16)\n"
        "answer = raw if plan.endpoint.protocol == 'http' else frame(raw)\n"
        "assert answer_check(plan).problem(1, len(answer), answer) is None\n"
        "HeaderBlocks().read(literal('grpc-status', '5'))\n"
        "print(sorted(set(sys.modules) - before))\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, str(plan.path)], capture_output=True, text=True, env={**os.environ}
    )
    assert process.returncode == 0, process.stderr
    more = process.stdout.strip()
    assert more == "[]" or protocol == "http", more  # HTTP has no header blocks: hpack is none of its


def test_requests_of_an_offline_load_have_until_its_end(tmp_path: Path) -> None:
    """No more than the limit are under way, whatever the client has room for; none times out before all is over."""
    sink, client, recorder = dispatcher(tmp_path, timeout_ms=1)
    sink.drops, sink.limit = False, 3
    for number in range(10):
        sink.submit(call(number))
    assert len(client.flying) == 3
    sink.expire(time.monotonic_ns() + 50 * MS)
    assert not client.abandoned
    for _ in range(7):
        client.answer()
        assert len(client.flying) == 3
    sink.drops = True
    sink.expire(time.monotonic_ns() + 50 * MS)
    assert len(client.abandoned) == 3 and sink.outstanding == 0
    assert [status for _, status in records(recorder)] == ["ok"] * 7 + ["timeout"] * 3


def test_a_closed_loop_counts_its_quota_from_the_measured_part_on(tmp_path: Path) -> None:
    """The users of the warm-up go on, so that there are never more of them; the quota is of what follows."""
    sink, client, recorder = dispatcher(tmp_path)
    measured_ns = 0

    async def work(loop: asyncio.AbstractEventLoop) -> None:
        nonlocal measured_ns
        now = time.monotonic_ns()
        measured_ns = now + 30 * MS
        driver = ClosedLoop(
            loop, sink, PAYLOADS, users=4, think_time_ns=0, start_ns=now, end_ns=now + 20_000 * MS,
            first_id=0, id_step=1, quota=20, quota_from_ns=measured_ns,
        )  # fmt: skip
        driver.begin()
        while not driver.finished or client.flying:
            assert len(client.flying) <= 4
            if client.flying:
                client.answer()
            await asyncio.sleep(0.001)
        driver.stop()

    on_loop(work)
    recorder.close()
    before = [c for c in client.sent if c.intended_ns < measured_ns]
    assert len(before) > 4 and len(client.sent) - len(before) == 20


def test_a_plan_ends_where_its_trace_ends_and_has_no_seam(tmp_path: Path) -> None:
    """The window of a short trace is the trace's; the users of a closed loop with a quota are those of its warm-up."""
    (tmp_path / "t.csv").write_text("TIMESTAMP\n0\n1\n2\n")
    where = endpoint("http", 1)
    trace = {"kind": "trace", "path": "t.csv"}
    plan = load_plan(tmp_path, where, arrivals=trace, duration_s=60.0, warmup_s=1.0)
    assert (plan.measure_start_ns, plan.measure_end_ns) == (1_000 * MS, 4_000 * MS)
    closed = {"kind": "closed_loop", "concurrency": 4}
    (only,) = load_plan(tmp_path, where, arrivals=closed, max_requests=50, warmup_s=1.0).segments
    assert (only.start_ns, only.quota_from_ns, only.max_requests) == (0, 1_000 * MS, 50)
    with pytest.raises(InputError, match="offline has its number of requests"):
        load_plan(tmp_path, where, arrivals={"kind": "offline", "requests": 50}, max_requests=10)


def test_a_sender_imports_no_arrow() -> None:
    """It appends rows to a file of its own, which others make a table of: each load waits for its senders' start."""
    code = (
        "import sys, inferbench_tasks.loadgen.shard\n"
        "print(sorted({'pyarrow', 'pandas', 'scipy', 'tokenizers'} & set(sys.modules)))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
