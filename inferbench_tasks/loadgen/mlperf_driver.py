"""MLPerf LoadGen inside a sender: it issues the queries, our client sends them.

LoadGen runs in threads of its own and only hands over: ``issue`` puts the queries on the sender's loop.
A query is intended for the moment at which LoadGen's schedule has it: the end of the one before in SingleStream and
MultiStream; in Server that of ``mlperf_schedule``, which is written into the records afterwards. One query is one
request: of one sample, or in MultiStream of ``samples_per_query`` samples, which are put together when LoadGen has its
data set loaded, before the clock runs.
"""

from __future__ import annotations

import array
import asyncio
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from inferbench_tasks.clients.base import Call, Payload
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.loadgen.dispatcher import Dispatcher
from inferbench_tasks.loadgen.mlperf_schedule import seeds
from inferbench_tasks.loadgen.payloads import build_groups
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.spool import Recorder

#: LoadGen's names of its scenarios.
SCENARIOS = {
    "single_stream": "SingleStream",
    "multi_stream": "MultiStream",
    "server": "Server",
    "offline": "Offline",
}
#: How long Python lets one thread go on while another waits: LoadGen's thread must not wait 5 ms.
_SWITCH_S = 0.0001
_POLL_S = 0.002
#: LoadGen makes its queries beforehand, as many as fit at the expected latency: no fewer than it will need.
_LEAST_LATENCY_NS, _MOST_QUERIES = 50_000, 2_000_000


class Sut(Dispatcher):
    """The dispatcher as LoadGen's system under test.

    LoadGen knows no failure and waits for every query: it is told of failed ones as of others, its own figures count
    them as answers, and the certificate refuses such a run (``outcome``). ``ended_ns``: when a query ended last.
    """

    def __init__(self, recorder: Recorder, timeout_ns: int, *, spans: bool = False) -> None:
        super().__init__(recorder, timeout_ns, spans=spans)
        #: By request id, LoadGen's ids of the samples in it.
        self.queries: dict[int, tuple[int, ...]] = {}
        self.fastest_ns = 0
        self.ended_ns = -1

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        if call.done:
            return
        answers = self.answers_of(call, status)
        super().finish(call, status, done_ns)
        ids = self.queries.pop(call.request_id, None)
        if ids is not None:
            self.ended_ns = max(self.ended_ns, done_ns)
            import mlperf_loadgen as lg

            # LoadGen copies what it is given before it returns.
            places = [data.buffer_info() if data else (0, 0) for data in answers] or [(0, 0)] * len(ids)
            pairs = zip(ids, places, strict=True)
            lg.QuerySamplesComplete([lg.QuerySampleResponse(one, *place) for one, place in pairs])
        elif done_ns > call.sent_ns >= 0:  # of the warm-up
            took_ns = done_ns - call.sent_ns
            self.fastest_ns = min(self.fastest_ns or took_ns, took_ns)

    def answers_of(self, call: Call, status: str) -> Sequence[array.array[int]]:
        """What LoadGen is given as the answer to each sample of a request that ends; [] for nothing to any."""
        return ()


class LoadGenDriver:
    """Stands where the other drivers stand: begins after the warm-up, is finished when LoadGen is."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        plan: LoadPlan,
        sut: Sut,
        payloads: Sequence[Payload],
        start_ns: int,
        first_id: int,
    ) -> None:
        self._loop = loop
        self._plan = plan
        self._sut = sut
        self._payloads = payloads
        self._groups: dict[int, Payload] = {}
        self._start_ns = start_ns
        self._next_id = first_id
        assert plan.mlperf is not None
        #: Whether a query is due when the one before has ended.
        self._follows = plan.mlperf.scenario in ("single_stream", "multi_stream")
        self._ended = threading.Event()
        self.problem: str | None = None

    @property
    def finished(self) -> bool:
        """Whether LoadGen has written its verdict, or failed (``problem`` says how)."""
        return self._ended.is_set()

    def begin(self) -> None:
        """Wait for the warm-up's last answer, then let LoadGen start."""
        sys.setswitchinterval(_SWITCH_S)
        self._wait()

    def stop(self) -> None:
        """LoadGen can't be stopped; it ends with its process."""

    def _wait(self) -> None:
        if time.monotonic_ns() < self._start_ns or self._sut.outstanding:
            self._loop.call_later(_POLL_S, self._wait)
        else:
            threading.Thread(target=self._test, daemon=True).start()

    def _test(self) -> None:
        """Run the test; this is LoadGen's own thread."""
        import mlperf_loadgen as lg

        try:
            count = self._samples()
            handle = lg.ConstructSUT(self._issue, _nothing)
            library = lg.ConstructQSL(count, count, self._load, _nothing)
            lg.StartTestWithLogSettings(handle, library, self._settings(lg), _log_settings(lg, self._plan))
            lg.DestroyQSL(library)
            lg.DestroySUT(handle)
        except (RuntimeError, ValueError, TypeError, LookupError, OSError, InferBenchError) as error:
            self.problem = f"MLPerf's LoadGen failed: {type(error).__name__}: {error}"
        finally:
            self._ended.set()

    def _samples(self) -> int:
        """How many LoadGen's data set has."""
        return len(self._payloads)

    def _load(self, indices: list[int]) -> None:
        """LoadGen's data set in the order in which MultiStream takes neighbours from it."""
        size = self._plan.batches[0].batch_size
        if size > 1:
            rows = [self._payloads[index].sample_index for index in indices]
            starts = range(len(indices) - size + 1)
            payloads = build_groups(self._plan, [rows[at : at + size] for at in starts])
            self._groups = {indices[at]: payload for at, payload in zip(starts, payloads, strict=True)}

    def _issue(self, samples: list[Any]) -> None:
        now_ns = time.monotonic_ns()
        if self._groups:
            queries = [(tuple(sample.id for sample in samples), samples[0].index)]
        else:
            queries = [((sample.id,), sample.index) for sample in samples]
        self._loop.call_soon_threadsafe(self._take, queries, now_ns)

    def _take(self, queries: list[tuple[tuple[int, ...], int]], issued_ns: int) -> None:
        """On the loop: send what LoadGen issued."""
        intended_ns = self._sut.ended_ns if self._follows and self._sut.ended_ns >= 0 else issued_ns
        for ids, index in queries:
            request_id = self._next_id
            self._next_id += 1
            self._sut.queries[request_id] = ids
            payload = self._groups[index] if self._groups else self._payloads[index]
            self._sut.submit(Call(request_id, intended_ns, payload))

    def _settings(self, lg: Any) -> Any:
        plan = self._plan
        mlperf = plan.mlperf
        assert mlperf is not None
        duration_ns = plan.measure_end_ns - plan.measure_start_ns
        settings = lg.TestSettings()
        settings.scenario = getattr(lg.TestScenario, SCENARIOS[mlperf.scenario])
        settings.mode = lg.TestMode.PerformanceOnly
        settings.qsl_rng_seed, settings.sample_index_rng_seed, settings.schedule_rng_seed = seeds(plan.seed)
        settings.min_query_count = 1
        settings.max_query_count = mlperf.max_queries or 0
        if mlperf.scenario == "offline":
            # One query with all samples; LoadGen makes it larger where rate x duration asks for more.
            settings.min_duration_ms, settings.offline_expected_qps = 1, 1.0
            settings.min_query_count = mlperf.requests
            settings.max_query_count = 0
            return settings
        settings.min_duration_ms = max(1, duration_ns // 1_000_000)
        expected_ns = max(_LEAST_LATENCY_NS, self._sut.fastest_ns // 2, duration_ns // _MOST_QUERIES)
        settings.single_stream_expected_latency_ns = expected_ns
        settings.multi_stream_expected_latency_ns = expected_ns
        settings.multi_stream_samples_per_query = plan.batches[0].batch_size
        settings.server_target_qps = mlperf.rate_rps
        settings.server_target_latency_ns = round(mlperf.target_latency_ms * 1e6)
        return settings


def _nothing(*_: Any) -> None:
    """LoadGen's other calls: nothing is held back, and nothing is unloaded."""


def _log_settings(lg: Any, plan: LoadPlan) -> Any:
    output = lg.LogOutputSettings()
    output.outdir = plan.folder
    output.copy_summary_to_stdout = False
    settings = lg.LogSettings()
    settings.log_output = output
    settings.enable_trace = False
    return settings
