"""The prober against real servers under real load: 20 ms put into one stage are found in that stage."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.backends.base import Deployment, Prepared
from inferbench_tasks.backends.triton import Triton
from inferbench_tasks.contracts.handles import Endpoint, ProcessorStep
from inferbench_tasks.loadgen.outcome import apply_load
from inferbench_tasks.loadgen.plan import ClientProcessing, LoadPlan
from inferbench_tasks.loadgen.prepare import prepare
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.stages import PARTS, breakdown, per_request
from inferbench_tasks.monitors.records import EMPTY, read_recording
from inferbench_tasks.monitors.session import MonitorSession, metrics_address
from inferbench_tasks.networks.base import Network, shaping_proxy
from inferbench_tasks.requests.ragged import objects, packed
from inferbench_tasks.servers.config import Batching
from inferbench_tasks.stages import serve
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.schema import LoadSpec
from tests.serving_cases import Case, dense_case, running_server, serve_input, served, server_config

pytestmark = pytest.mark.integration

SLEEP_MS = 20.0
#: How far a median may be from 20 ms in the stage with the sleep, and from nothing in the others.
WITHIN_MS = 1.0

#: A third party's plugins as an installed distribution brings them: a processor and an engine that sleep.
PLUGINS = """
import time

import numpy as np

from inferbench_tasks.servers.engines.onnxruntime import OnnxRuntimeEngine


class Floats:
    kind = "floats"

    def __init__(self, ms=0.0):
        self.ms = ms

    def __call__(self, raw):
        time.sleep(self.ms / 1e3)
        return np.stack([np.frombuffer(row, np.float32) for row in raw])


class Sleep:
    kind = "sleep"

    def __init__(self, ms):
        self.ms = ms

    def __call__(self, outputs):
        time.sleep(self.ms / 1e3)
        return outputs


class SleepyEngine(OnnxRuntimeEngine):
    def run(self, inputs):
        time.sleep(0.020)
        return super().run(inputs)
"""
#: Python runs this at every start: a server that is started with SLEEP_IN sleeps in the code of that stage.
SITE = """
import os

if "SLEEP_IN" in os.environ:
    import time

    from inferbench_tasks.servers import grpc_server, http

    first = os.environ["SLEEP_IN"] == "preprocess"
    for module, name in (
        (http, "decode_request" if first else "encode_response"),
        (grpc_server, "decode" if first else "encode"),
    ):
        def slow(*arguments, original=getattr(module, name)):
            time.sleep(0.020)
            return original(*arguments)

        setattr(module, name, slow)
"""
ENTRY_POINTS = """
[inferbench.processors]
floats = sleepers:Floats
sleep = sleepers:Sleep
[inferbench.engines]
sleepy = sleepers:SleepyEngine
"""


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder on PYTHONPATH with a distribution in it, for this process and all that it starts."""
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "sleepers.py").write_text(PLUGINS)
    (folder / "sitecustomize.py").write_text(SITE)
    info = folder / "sleepers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sleepers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    with pytest.MonkeyPatch.context() as patch:
        before = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", f"{folder}:{before}" if before else str(folder))
        yield folder


def processing(
    folder: Path, case: Case, *, before_ms: float = 0.0, after_ms: float = 0.0
) -> ClientProcessing:
    """From the bytes of a sample to the model's input on the client, and something after the answer."""
    raw = folder / "raw.npz"
    if not raw.exists():
        np.savez(
            raw, allow_pickle=False, **packed({"raw": objects([row.tobytes() for row in case.samples["x"]])})
        )
    return ClientProcessing(
        before=(ProcessorStep(kind="floats", settings={"ms": before_ms}),),
        after=(ProcessorStep(kind="sleep", settings={"ms": after_ms}),),
        raw_path=str(raw),
    )


def measure(
    folder: Path,
    case: Case,
    where: Endpoint,
    processing: ClientProcessing | None,
    spans: bool = True,
    **load: Any,
) -> tuple[dict[str, Any], Window]:
    """Requests one by one, 40 ms apart, for a second; the breakdown.

    A process that has slept is woken up to some ms late. One user without a pause would let nobody sleep but where the
    test puts a sleep: the part after it would get that delay. So far apart both sides of a comparison sleep.
    """
    folder = Path(tempfile.mkdtemp(dir=folder))
    np.savez(folder / "requests.npz", x=case.samples["x"])
    spec = {"arrivals": {"kind": "constant", "rate_rps": 25}, "duration_s": 1.0, "warmup_s": 0.2, **load}
    plan: LoadPlan = prepare(
        LoadSpec.model_validate(spec),
        folder=folder / "load",
        endpoint=where,
        inputs_path=str(folder / "requests.npz"),
        base_dir=folder,
        server_spans=spans,
    ).model_copy(update={"processing": processing})
    outcome = apply_load(plan, folder / "samples.parquet")
    assert not outcome.applied.problem, outcome.applied.problem
    window = Window.of(outcome.table(), outcome.measure_start_ns, outcome.measure_end_ns)
    assert window.answered.sum() > 10
    return breakdown(window, EMPTY), window


@contextmanager
def server(folder: Path, protocol: str, case: Case, **changes: Any) -> Iterator[Endpoint]:
    folder.mkdir(parents=True)
    ports = {"http_port": 0, "grpc_port": None if protocol == "http" else 0}
    config = server_config(case, folder, **ports).model_copy(update=changes)
    with running_server(config, folder) as found:
        yield Endpoint.model_validate(
            {
                "protocol": protocol,
                "host": "127.0.0.1",
                "port": found[protocol.partition("_")[0]],
                "model_name": case.model.name,
                "model_version": "1",
            }
        )


@contextmanager
def link(folder: Path, where: Endpoint, latency_ms: float) -> Iterator[Endpoint]:
    """The endpoint, reached over a link of that latency each way."""
    network = Network.model_validate(
        {"name": "link", "latency_ms": latency_ms, "source": "test", "date": "2024"}
    )
    with shaping_proxy(network, where.host, where.port, folder / f"network-{latency_ms}.log") as port:
        yield where.model_copy(update={"port": int(port)})


#: On a machine that others use too a moment may be too noisy for a ms: both sides are measured again.
ATTEMPTS = 8


def assert_found(
    stage: str,
    base: Callable[[bool], dict[str, Any]],
    slept: Callable[[], dict[str, Any]],
    figure: str = "p50",
) -> tuple[dict[str, Any], dict[str, Any]]:
    """With the sleep the median is 20 ms longer in that stage and in no other, and the parts add up.

    ``base(again)``: without the sleep, measured anew if ``again``.
    """
    for attempt in range(ATTEMPTS):
        before, after = base(attempt > 0), slept()
        found = {part: after[part][figure] - before[part][figure] for part in PARTS}
        off = {part: abs(found[part] - (SLEEP_MS if part == stage else 0.0)) for part in PARTS}
        total = sum(after[part]["mean"] for part in PARTS)
        assert total == pytest.approx(after["e2e"]["mean"], rel=1e-6)
        if max(off.values()) <= WITHIN_MS:
            return before, after
    raise AssertionError(f"sleep in {stage}: {found} ms more in each part")


@pytest.mark.parametrize("protocol", ["http", pytest.param("grpc", marks=pytest.mark.long)])
def test_a_sleep_of_20_ms_is_found_in_its_stage(
    tmp_path: Path, plugins: Path, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pre- and post-processing on either side, network, queue, inference: each gets its 20 ms, no other does."""
    case = dense_case(tmp_path)
    plain = processing(tmp_path, case)
    with server(tmp_path / "plain", protocol, case) as where:
        first, window = measure(tmp_path, case, where, plain)
        assert first["method"] == "per_request" and first["coverage_ratio"] == 1.0
        parts = per_request(window)
        assert np.array_equal(
            np.sum([parts[part] for part in PARTS], axis=0), window.done_ns - window.intended_ns
        )

        def base(again: bool) -> dict[str, Any]:
            nonlocal first
            first = measure(tmp_path, case, where, plain)[0] if again else first
            return first

        def slept(at: Endpoint, steps: ClientProcessing = plain) -> Callable[[], dict[str, Any]]:
            return lambda: measure(tmp_path, case, at, steps)[0]

        for part, steps in (
            ("preprocess", processing(tmp_path, case, before_ms=SLEEP_MS)),
            ("postprocess", processing(tmp_path, case, after_ms=SLEEP_MS)),
        ):
            _, found = assert_found(part, base, slept(where, steps))
            assert found["sides"][part]["client"] >= SLEEP_MS > 5 > found["sides"][part]["server"]
        # Both sides go through a proxy: what its own work adds on a slow machine is in both, the link's 20 ms in one.
        with link(tmp_path, where, 1.0) as near, link(tmp_path, where, 1.0 + SLEEP_MS / 2) as far:
            assert_found("transmit", lambda again: slept(near)(), slept(far))
        if protocol == "http":
            batching = Batching(max_batch_size=64, max_delay_ms=SLEEP_MS)
            with server(tmp_path / "queueing", protocol, case, batching=batching) as other:
                assert_found("queue", base, slept(other))
        with server(tmp_path / "sleepy", protocol, case, engine="sleepy") as other:
            assert_found("inference", base, slept(other))
        for part in ("preprocess", "postprocess") if protocol == "http" else ("postprocess",):
            with monkeypatch.context() as patch:
                patch.setenv("SLEEP_IN", part)
                with server(tmp_path / f"server-{part}", protocol, case) as other:
                    _, found = assert_found(part, base, slept(other))
            assert found["sides"][part]["server"] >= SLEEP_MS > 5 > found["sides"][part]["client"]


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    """A data directory with the environments that the contract's tests have made, or will."""
    environments = Path(sys.prefix) / "inferbench-test-envs"
    environments.mkdir(exist_ok=True)
    (tmp_path / "data" / "cache").mkdir(parents=True)
    (tmp_path / "data" / "cache" / "envs").symlink_to(environments)
    return Context(data_dir=tmp_path / "data")


@contextmanager
def triton(folder: Path, ctx: Context, case: Case, **serve_spec: Any) -> Iterator[serve.Output]:
    folder.mkdir()
    inp = serve_input(case, folder, folder.name, backend="triton", **serve_spec)
    with served(inp, ctx) as output:
        yield output


def test_tritons_statistics_and_trace_find_it_too(
    tmp_path: Path, plugins: Path, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Means come from Triton's counters, percentiles from its trace; a sleep in the model, one in the client."""
    case = dense_case(tmp_path)
    plain = processing(tmp_path, case)
    original = Triton.prepare

    def sleepy(self: Triton, deployment: Deployment) -> Prepared:
        prepared = original(self, deployment)
        (model,) = deployment.folder.glob("repository/*/1/model.py")
        head = '"""One run of the model for all requests."""'
        code = model.read_text()
        assert head in code
        model.write_text(code.replace(head, head + "\n        import time; time.sleep(0.020)"))
        return prepared

    def of(
        output: serve.Output, steps: ClientProcessing = plain, at: Endpoint | None = None
    ) -> dict[str, Any]:
        """Both instruments at once."""
        drawn = output.backend.drawn
        path = tmp_path / "monitors.parquet"
        address = metrics_address(output.endpoint, drawn)
        with MonitorSession(output.server, path, metrics_url=address, kinds=["server_metrics"]):
            # Without a pause: Triton traces one request in some, and a median wants enough of them.
            load: dict[str, Any] = {
                "arrivals": {"kind": "closed_loop", "concurrency": 1},
                "duration_s": 2.2,
                "warmup_s": 0.4,
            }
            _, window = measure(tmp_path, case, at or output.endpoint, steps, **load)
            time.sleep(1.1)
        return breakdown(window, read_recording(path), drawn["trace"]["file"])

    with triton(tmp_path / "plain-triton", ctx, case) as server_:
        first = of(server_)
        assert first["method"] == "server_statistics" and first["traced"] > 5

        def base(again: bool) -> dict[str, Any]:
            nonlocal first
            first = of(server_) if again else first
            return first

        steps = processing(tmp_path, case, before_ms=SLEEP_MS)
        assert_found("preprocess", base, lambda: of(server_, steps), figure="mean")
        with monkeypatch.context() as patch:
            patch.setattr(Triton, "prepare", sleepy)
            with triton(tmp_path / "sleepy-triton", ctx, case) as other:
                _, found = assert_found("inference", base, lambda: of(other), figure="mean")
        assert found["inference"]["p50"] == pytest.approx(SLEEP_MS, abs=2.0)


def test_without_the_servers_word_the_rest_is_unattributed(tmp_path: Path, plugins: Path) -> None:
    """TensorFlow Serving's protocol: the client's parts are known, all else is one block, and it is said so."""
    case = dense_case(tmp_path)
    with server(tmp_path / "tfs", "grpc_tfs", case, grpc_service="tfs", engine="sleepy") as where:
        for ms in (0.0, SLEEP_MS):
            steps = processing(tmp_path, case, before_ms=ms)
            found, _ = measure(tmp_path, case, where, steps, spans=False)
            assert found["method"] == "difference" and "can't be told apart" in found["reason"]
            assert found["inference"] is None and found["transmit"] is None
            assert found["preprocess"]["p50"] == pytest.approx(ms, abs=3.0)
            assert found["unattributed"]["p50"] >= SLEEP_MS
            parts = sum(found[part]["mean"] for part in ("preprocess", "postprocess", "unattributed"))
            assert parts == pytest.approx(found["e2e"]["mean"])
