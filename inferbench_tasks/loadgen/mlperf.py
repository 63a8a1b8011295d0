"""MLPerf's own LoadGen as the scheduler, over our transport: its four scenarios, its logs, its verdict.

LoadGen decides when each query is issued and judges the run; our client sends the requests, one for each
sample, and every request is recorded as in any other load. LoadGen runs in threads of its own and only
hands over: ``issue`` puts the queries on the sender's loop. Results are MLPerf results only when they are
run to MLPerf's rules.

``python -m inferbench_tasks.loadgen.mlperf PLAN SETTINGS`` is the sender's process.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from inferbench_tasks.clients.base import CLIENTS, Call, ClientSettings, client_kind
from inferbench_tasks.errors import LoadError
from inferbench_tasks.extras import require
from inferbench_tasks.loadgen.dispatcher import Dispatcher
from inferbench_tasks.loadgen.payloads import answer_check, build_payloads
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.spool import Recorder, merge

Scenario = Literal["single_stream", "multi_stream", "server", "offline"]
_NAMES = {
    "single_stream": "SingleStream",
    "multi_stream": "MultiStream",
    "server": "Server",
    "offline": "Offline",
}
_EXPIRE_S = 0.01
SUMMARY, DETAIL = "mlperf_log_summary.txt", "mlperf_log_detail.txt"


class MlperfSettings(BaseModel):
    """LoadGen's settings that matter here; the defaults are far below MLPerf's rules (600 s)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scenario: Scenario
    #: Server: the Poisson rate. Offline: the throughput expected, from which the number of samples is made.
    target_qps: float = Field(default=100.0, gt=0)
    #: Server: the latency that the 99th percentile must keep.
    target_latency_ms: float = Field(default=100.0, gt=0)
    samples_per_query: int = Field(default=8, ge=1)
    min_duration_s: float = Field(default=10.0, gt=0)
    min_queries: int = Field(default=100, ge=1)
    trace: bool = False


class MlperfResult(BaseModel):
    """``valid``: LoadGen's own verdict. ``summary``: every "name : value" of its summary, as text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    valid: bool
    summary: dict[str, str]
    summary_path: str
    detail_path: str
    samples_path: str
    requests: int
    errors: int


def run_mlperf(plan: LoadPlan, settings: MlperfSettings, samples_path: Path) -> MlperfResult:
    """Apply a scenario; LoadError if the sender fails or leaves no summary. ``plan.segments`` don't count."""
    require("mlperf")
    folder = Path(plan.folder)
    folder.mkdir(parents=True, exist_ok=True)
    plan.path.write_text(plan.model_dump_json())
    settings_path = folder / "mlperf.json"
    settings_path.write_text(settings.model_dump_json())
    for name in (SUMMARY, DETAIL):
        (folder / name).unlink(missing_ok=True)
    log_path = plan.log_path(0)
    with open(log_path, "wb") as log:
        code = subprocess.run(
            [sys.executable, "-m", "inferbench_tasks.loadgen.mlperf", str(plan.path), str(settings_path)],
            stdout=log,
            stderr=log,
            check=False,
        ).returncode
    spool = plan.spool_path(0)
    requests = merge([spool], samples_path) if spool.exists() else 0
    summary_path = folder / SUMMARY
    if code or not summary_path.exists():
        text = log_path.read_text(errors="replace").strip()[-1500:]
        raise LoadError(f"MLPerf's LoadGen ended with code {code}; {requests} records are kept:\n{text}")
    summary = parse_summary(summary_path.read_text(errors="replace"))
    from inferbench_tasks.loadgen.records import is_ok, read_samples

    return MlperfResult(
        valid=summary.get("Result is") == "VALID",
        summary=summary,
        summary_path=str(summary_path),
        detail_path=str(folder / DETAIL),
        samples_path=str(samples_path),
        requests=requests,
        errors=int((~is_ok(read_samples(samples_path, ["status"]))).sum()),
    )


def parse_summary(text: str) -> dict[str, str]:
    """LoadGen's summary as names and values."""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, _, value in pairs if value.strip()}


class _Sut(Dispatcher):
    """Our sender as LoadGen's system under test. A failed request is completed too, and recorded as failed."""

    def __init__(self, recorder: Recorder, timeout_ns: int, lg: Any) -> None:
        super().__init__(recorder, timeout_ns)
        self.drops = False  # whatever was issued has to be completed
        self._lg = lg
        self._queries: dict[int, int] = {}
        self._count = 0

    def take(self, queries: list[tuple[int, int]], issued_ns: int, payloads: Any) -> None:
        """On the loop: send what LoadGen issued, as (id, sample)."""
        for query_id, index in queries:
            self._queries[self._count] = query_id
            self.submit(Call(self._count, issued_ns, payloads[index]))
            self._count += 1

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        if call.done:
            return
        super().finish(call, status, done_ns)
        query_id = self._queries.pop(call.request_id)
        self._lg.QuerySamplesComplete([self._lg.QuerySampleResponse(query_id, 0, 0)])


async def _apply(plan: LoadPlan, settings: MlperfSettings) -> None:
    import mlperf_loadgen as lg

    loop = asyncio.get_running_loop()
    payloads = build_payloads(plan)
    with Recorder(plan.spool_path(0), 0) as recorder:
        sut = _Sut(recorder, plan.timeout_ns, lg)
        factory = CLIENTS.load(client_kind(plan.endpoint.protocol, plan.client))
        where = ClientSettings(plan.endpoint, connections=plan.connections, timeout_ns=plan.timeout_ns)
        sut.client = factory(where, loop, sut, answer_check(plan))
        await sut.client.open(plan.initial_connections)

        def issue(samples: list[Any]) -> None:
            now_ns = time.monotonic_ns()
            queries = [(sample.id, sample.index) for sample in samples]
            loop.call_soon_threadsafe(sut.take, queries, now_ns, payloads)

        def nothing(*_: Any) -> None:
            """LoadGen's other calls: the samples are in memory, and nothing is held back."""

        ended = asyncio.Event()

        def test() -> None:
            handle = lg.ConstructSUT(issue, nothing)
            library = lg.ConstructQSL(len(payloads), len(payloads), nothing, nothing)
            try:
                lg.StartTestWithLogSettings(
                    handle, library, _test_settings(lg, settings), _log_settings(lg, plan, settings)
                )
            finally:
                lg.DestroyQSL(library)
                lg.DestroySUT(handle)
                loop.call_soon_threadsafe(ended.set)

        thread = threading.Thread(target=test)
        thread.start()
        while not ended.is_set():
            sut.expire(time.monotonic_ns())
            await asyncio.sleep(_EXPIRE_S)
        thread.join()
        await sut.client.close()


def _test_settings(lg: Any, settings: MlperfSettings) -> Any:
    made = lg.TestSettings()
    made.scenario = getattr(lg.TestScenario, _NAMES[settings.scenario])
    made.mode = lg.TestMode.PerformanceOnly
    made.min_duration_ms = round(settings.min_duration_s * 1000)
    made.min_query_count = settings.min_queries
    made.server_target_qps = settings.target_qps
    made.server_target_latency_ns = round(settings.target_latency_ms * 1e6)
    made.offline_expected_qps = settings.target_qps
    made.multi_stream_samples_per_query = settings.samples_per_query
    return made


def _log_settings(lg: Any, plan: LoadPlan, settings: MlperfSettings) -> Any:
    output = lg.LogOutputSettings()
    output.outdir = plan.folder
    output.copy_summary_to_stdout = False
    made = lg.LogSettings()
    made.log_output = output
    made.enable_trace = settings.trace
    return made


if __name__ == "__main__":
    import uvloop

    given = LoadPlan.model_validate_json(Path(sys.argv[1]).read_bytes())
    wanted = MlperfSettings.model_validate_json(Path(sys.argv[2]).read_bytes())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_apply(given, wanted))
