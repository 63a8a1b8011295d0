"""One sender: a process of its own with one loop. ``python -m inferbench_tasks.loadgen.shard PLAN INDEX``.

It builds its requests, connects, says that it is ready, and starts with all the others at the time that
it is given. It ends when its orders' pipe is closed: it never outlives its controller.
"""

from __future__ import annotations

import array
import asyncio
import gc
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import uvloop

from inferbench_tasks.clients.base import ClientSettings, client_factory
from inferbench_tasks.clients.stream_file import Streams, StreamWriter
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.loadgen.closed_loop import ClosedLoop
from inferbench_tasks.loadgen.dispatcher import Dispatcher
from inferbench_tasks.loadgen.heartbeat import Heartbeat
from inferbench_tasks.loadgen.kept_answers import Keeper, KeepingCheck, keeping
from inferbench_tasks.loadgen.live_processing import live, times_of
from inferbench_tasks.loadgen.messages import Order, Report
from inferbench_tasks.loadgen.mlperf_accuracy_driver import AccuracyDriver, AccuracySut
from inferbench_tasks.loadgen.mlperf_driver import LoadGenDriver, Sut
from inferbench_tasks.loadgen.mlperf_schedule import first_query_id
from inferbench_tasks.loadgen.open_loop import OpenLoop
from inferbench_tasks.loadgen.payloads import answer_check, build_payloads
from inferbench_tasks.loadgen.plan import LoadPlan, Segment
from inferbench_tasks.loadgen.rehearsal import rehearse
from inferbench_tasks.loadgen.spool import Recorder
from inferbench_tasks.timing.realtime import become_realtime
from inferbench_tasks.timing.wall_clock import WallClock

if TYPE_CHECKING:
    from inferbench_tasks.loadgen.sessions import Sessions

_REPORT_NS = 200_000_000
_FLUSH_NS = 200_000_000


class Shard:
    """Everything that one sender has: payloads, client, drivers, records."""

    def __init__(
        self,
        plan: LoadPlan,
        index: int,
        loop: asyncio.AbstractEventLoop,
        recorder: Recorder,
        streams: StreamWriter | None = None,
    ) -> None:
        self._plan = plan
        self._index = index
        self._loop = loop
        self._recorder = recorder
        self._streams = streams
        self._clock = WallClock() if plan.stream is not None else None
        by_loadgen = AccuracySut if plan.mlperf and plan.mlperf.accuracy else Sut
        make = by_loadgen if plan.mlperf else Dispatcher
        self._dispatcher = make(recorder, plan.timeout_ns, spans=plan.spans)
        self._dispatcher.drops = all(segment.paced for segment in plan.segments)
        if plan.max_in_flight is not None:
            self._dispatcher.limit = max(1, plan.share(plan.max_in_flight, index))
        kept: Streams | None = streams
        self._sessions: Sessions | None = None
        if streams is not None and plan.turn_step:
            from inferbench_tasks.loadgen import sessions  # with what judges streams after a load

            kept = heard = sessions.Overheard(streams)
            self._sessions = sessions.Sessions(loop, self._dispatcher, plan, heard)
        self._payloads = self._sessions.first_turns if self._sessions else build_payloads(plan)
        settings = ClientSettings(
            endpoint=plan.endpoint,
            connections=max(1, plan.share(plan.connections, index)),
            connect_timeout_s=min(5.0, plan.timeout_ns / 1e9),
            timeout_ns=plan.timeout_ns,
            server_spans=plan.server_spans,
            target=plan.stream,
            streams=kept,
            clock=self._clock,
        )
        factory = client_factory(plan.endpoint.protocol, plan.client)
        self._times = times_of(plan)
        if plan.processing is not None:
            factory = live(plan, factory, self._times)
        self._keeper = Keeper() if plan.keep_answers else None
        if self._keeper is not None:
            factory = keeping(factory, self._keeper)
        check = answer_check(plan)
        if isinstance(self._dispatcher, AccuracySut):
            assert isinstance(check, KeepingCheck)
            self._dispatcher.check = check
        self._client = factory(settings, loop, self._dispatcher, check)
        self._dispatcher.client = self._client
        self._drivers: list[OpenLoop | ClosedLoop | LoadGenDriver | Sessions] = []
        self._over = asyncio.Event()
        self._orders: asyncio.Queue[Order] = asyncio.Queue()
        self._end_ns = self._watched_until_ns = 0
        self._told_ns = self._flushed_ns = 0
        self._gave_up = False

    async def run(self) -> None:
        """From the connections to the last record."""
        listener = asyncio.create_task(self._listen())
        plan = self._plan
        rehearse(plan)
        await self._client.open(max(1, plan.share(plan.initial_connections, self._index)))
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 50, 100)
        if plan.realtime:
            become_realtime()
        _tell(Report(state="ready"))
        order = await self._orders.get()
        if order.start_ns is None:
            await self._client.close()
            return
        start_ns = order.start_ns
        self._end_ns = start_ns + max(segment.end_ns for segment in plan.segments)
        if self._sessions is not None:
            self._sessions.end_ns = self._end_ns
        self._drivers = [*self._all_drivers(start_ns), *filter(None, [self._sessions])]
        last = plan.segments[-1]
        if last.kind == "open" and last.paced and plan.mlperf is None:
            # No request in the rest of the window is part of the load: it is measured to its end.
            self._watched_until_ns = self._end_ns
        heartbeat = Heartbeat(
            self._loop,
            self._index,
            start_ns + plan.measure_start_ns,
            start_ns + plan.measure_end_ns,
            self._beat,
        )
        heartbeat.begin()
        for driver in self._drivers:
            driver.begin()
        stopping = asyncio.create_task(self._orders.get())
        over = asyncio.create_task(self._over.wait())
        await asyncio.wait({stopping, over}, return_when=asyncio.FIRST_COMPLETED)
        usage = heartbeat.usage()
        if self._clock is not None:
            self._clock.sample()
            usage = usage.model_copy(update={"clock_step_ns": self._clock.max_step_ns})
        heartbeat.stop()
        for driver in self._drivers:
            driver.stop()
        self._dispatcher.cancel()
        self._recorder.close()
        await self._client.close()
        if self._keeper is not None:
            self._keeper.write(plan.answers_path(self._index))
        if self._times is not None:
            self._times.write(plan.processed_path(self._index))
        quotas = [d.ended_ns for d in self._drivers if isinstance(d, ClosedLoop) and d.ended_ns >= 0]
        _tell(
            Report(
                state="done",
                usage=usage,
                explanations=self._dispatcher.explanations,
                quota_ns=max(quotas, default=-1),
                error=next((d.problem for d in self._drivers if isinstance(d, LoadGenDriver)), None),
            )
        )
        for task in (listener, stopping, over):
            task.cancel()

    def _all_drivers(self, start_ns: int) -> Iterator[OpenLoop | ClosedLoop | LoadGenDriver]:
        plan = self._plan
        if plan.mlperf is None:
            yield from (self._driver(segment, start_ns) for segment in plan.segments)
            return
        if plan.measure_start_ns:
            # A single segment is the same closed loop before and after: here its first part is ours.
            warmup = plan.segments[0].model_copy(update={"end_ns": plan.measure_start_ns})
            yield self._driver(warmup, start_ns)
        assert isinstance(self._dispatcher, Sut)
        begin_ns = start_ns + plan.measure_start_ns
        make = AccuracyDriver if plan.mlperf.accuracy else LoadGenDriver
        yield make(self._loop, plan, self._dispatcher, self._payloads, begin_ns, first_query_id(plan))

    def _driver(self, segment: Segment, start_ns: int) -> OpenLoop | ClosedLoop:
        plan, index = self._plan, self._index
        first_id = segment.first_request_id + index
        if segment.kind == "open":
            assert segment.offsets_path is not None
            mine = np.load(segment.offsets_path, mmap_mode="r")[index :: plan.shards] + start_ns
            intended = array.array("q", mine.astype(np.int64).tobytes())
            user = self._sessions.follow() if self._sessions else 0
            return OpenLoop(
                self._loop, self._dispatcher, self._payloads, intended, first_id, plan.shards, user
            )
        quota = segment.max_requests
        return ClosedLoop(
            self._loop,
            self._dispatcher,
            self._payloads,
            users=plan.share(segment.concurrency, index),
            think_time_ns=segment.think_time_ns,
            start_ns=start_ns + segment.start_ns,
            end_ns=start_ns + segment.end_ns,
            first_id=first_id,
            id_step=plan.shards,
            quota=None if quota is None else plan.share(quota, index),
            quota_from_ns=start_ns + segment.quota_from_ns,
            sessions=self._sessions,
        )

    def _beat(self, now_ns: int) -> None:
        dispatcher = self._dispatcher
        if self._clock is not None:
            self._clock.sample()
        dispatcher.expire(now_ns)
        if now_ns - self._flushed_ns > _FLUSH_NS:
            self._flushed_ns = now_ns
            if self._streams is not None:
                self._streams.flush()  # first: of a sender that is killed no record may stand without its stream
            self._recorder.flush()
        if now_ns - self._told_ns > _REPORT_NS:
            self._told_ns = now_ns
            _tell(Report(state="running", outstanding=dispatcher.outstanding))
        if now_ns >= self._end_ns and not dispatcher.drops and not self._gave_up:
            self._gave_up = True
            for driver in self._drivers:
                driver.stop()
            dispatcher.drop_waiting()
            dispatcher.drops = True  # what is still under way has its timeout from now on
        quiet = dispatcher.outstanding == 0 and all(driver.finished for driver in self._drivers)
        if quiet and now_ns >= self._watched_until_ns:
            self._over.set()

    async def _listen(self) -> None:
        reader = asyncio.StreamReader()
        await self._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self._orders.put_nowait(Order.model_validate_json(line))
        self._orders.put_nowait(Order(stop=True))


def _tell(report: Report) -> None:
    sys.stdout.write(report.model_dump_json(exclude_defaults=True) + "\n")
    sys.stdout.flush()


def _raise_file_limit() -> None:
    """A connection is a file: as many as the system lets us have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(plan_path: str, index: int) -> int:
    """Run one shard; 0 if it came to its end."""
    plan = LoadPlan.model_validate_json(Path(plan_path).read_bytes())
    _raise_file_limit()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            recorder = stack.enter_context(Recorder(plan.spool_path(index), index, spans=plan.spans))
            streams = None
            if plan.stream is not None:
                streams = stack.enter_context(closing(StreamWriter(plan.streams_path(index))))
            await Shard(plan, index, loop, recorder, streams).run()

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())
    except (InferBenchError, OSError) as error:
        text = str(error) or type(error).__name__
        _tell(Report(state="done", error=text))
        return 1
    return 0


if __name__ == "__main__":
    started = time.monotonic_ns()
    code = main(sys.argv[1], int(sys.argv[2]))
    sys.stdout.flush()
    os._exit(code)  # nothing is left to do, and an interpreter takes its time to end
