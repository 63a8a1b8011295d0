"""Real loads on a real server, undisturbed and disturbed in turns, with the monitors that every run has."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.noise.injected import injected
from benchmarks.noise.server import working_server
from inferbench_tasks.contracts.handles import Endpoint, ServerHandle
from inferbench_tasks.loadgen.outcome import apply_load
from inferbench_tasks.loadgen.prepare import prepare
from inferbench_tasks.loadgen.summary import distribution
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.base import Measured
from inferbench_tasks.metrics.quiet import Quiet
from inferbench_tasks.monitors.environment import hardware
from inferbench_tasks.monitors.records import read_recording
from inferbench_tasks.monitors.session import MonitorSession
from inferbench_tasks.submission.schema import LoadSpec


@dataclass(frozen=True)
class LiveLoad:
    """Poisson arrivals at one worker; ``users``: a closed loop of so many instead."""

    name: str
    rate_rps: float
    work_ms: float
    kind: str = "cpu"
    users: int | None = None


LOADS = (
    LiveLoad("light", 200, 1.0), LiveLoad("half", 200, 2.5), LiveLoad("fast", 500, 0.3), LiveLoad("slow", 40, 8.0),
    LiveLoad("cache", 200, 1.0, "cache"), LiveLoad("memory", 200, 1.0, "memory"),
    LiveLoad("memory, half", 200, 2.5, "memory"), LiveLoad("long", 10, 30.0),
    LiveLoad("one user", 0, 2.0, users=1), LiveLoad("four users", 0, 2.0, users=4),
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """What one run says: the block of the quiet windows, and the whole's distribution; ``sampler_cores``: its cost."""

    quiet: dict[str, Any]
    whole: dict[str, Any]
    latencies_ms: np.ndarray
    sampler_cores: float | None


@dataclass(frozen=True)
class Injection:
    """What is taken, how much of the time, and in pieces of which length."""

    kind: str
    ratio: float
    burst_s: float

    def __str__(self) -> str:
        return f"{self.kind} {self.ratio:.0%} in {self.burst_s * 1e3:g} ms"


#: An undisturbed run is the truth that others are measured by, if the machine was quiet for so much of it.
UNDISTURBED_RATIO = 0.9
#: So often is one measured again where something else was at work; then the load is left out.
TRIES = 4


class NotQuietError(Exception):
    """The machine was never quiet by itself for one whole run."""


def trials(load: LiveLoad, injections: list[Injection | None], seconds: float) -> list[Trial]:
    """One run for each, against the same server; None: undisturbed, and measured again until it was.

    Whether it was is told by the monitors and by no latency. Raises NotQuietError.
    """
    with tempfile.TemporaryDirectory() as name, working_server(load.work_ms, load.kind) as (pid, port):
        results = []
        for what in injections:
            for _ in range(TRIES):
                trial = _trial(load, what, seconds, pid, port, Path(name))
                if what is not None or (trial.quiet["time_ratio"] or 0.0) >= UNDISTURBED_RATIO:
                    break
            else:
                raise NotQuietError(
                    f"{trial.quiet['time_ratio'] or 0.0:.0%} of an undisturbed run were quiet at the last of "
                    f"{TRIES} tries"
                )
            results.append(trial)
        return results


def _trial(
    load: LiveLoad, injection: Injection | None, seconds: float, pid: int, port: int, folder: Path
) -> Trial:
    arrivals = (
        {"kind": "closed_loop", "concurrency": load.users}
        if load.users
        else {"kind": "poisson", "rate_rps": load.rate_rps}
    )
    spec = LoadSpec.model_validate(
        {"arrivals": arrivals, "duration_s": seconds, "warmup_s": 1.0, "seed": 1, "allow_unsafe_load": True}
    )
    np.savez(folder / "inputs.npz", x=np.zeros((8, 16), np.float32))
    where = Endpoint.model_validate(
        {"protocol": "http", "host": "127.0.0.1", "port": port, "model_name": "null"}
    )
    plan = prepare(
        spec, folder=folder / "load", endpoint=where, inputs_path=str(folder / "inputs.npz"), base_dir=folder
    )
    server = ServerHandle(launcher="process", pid=pid, started_ns=1, log_path="", config_path="")
    with ExitStack() as stack:
        stack.enter_context(MonitorSession(server, folder / "monitors.parquet"))
        if injection is not None:
            stack.enter_context(injected(injection.kind, injection.ratio, injection.burst_s))
        outcome = apply_load(plan, folder / "samples.parquet")
    if outcome.applied.problem:
        raise SystemExit(f"{load.name}: {outcome.applied.problem}")
    window = Window.of(outcome.table(), outcome.measure_start_ns, outcome.measure_end_ns)
    recording = read_recording(folder / "monitors.parquet")
    quiet = Quiet().compute(Measured(window, recording, {}, hardware()))
    latencies_ms = (window.done_ns - window.intended_ns)[window.answered] / 1e6
    return Trial(quiet, distribution(latencies_ms), latencies_ms, recording.about.get("cpu_cores"))
