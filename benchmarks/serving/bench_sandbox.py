"""What the sandbox costs: starts and requests of one server with it and without it, in turns.

    python benchmarks/serving/bench_sandbox.py [--pairs 10] [--requests 2000]

A pair is two starts in drawn order, each followed by requests over one connection, one after the other. Printed are
medians of the differences within the pairs, with a bootstrap's 95% of that median: wall clock, and CPU time of the
starting process and of the server, which other processes disturb less. Exit code 1 where a start costs more than 150 ms
of CPU, or a request certainly more than 2% of CPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
from bench_servers import SHAPE, served, small_cnn
from numpy.typing import NDArray

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.launchers.process import ProcessLauncher
from inferbench_tasks.sandbox import SANDBOX, state

MOST_START_S, MOST_REQUEST_RATIO = 0.150, 0.02
FIGURES = (
    "launch_wall_s",
    "launch_cpu_s",
    "ready_wall_s",
    "server_cpu_s",
    "request_cpu_us",
    "request_p50_us",
)


class _Timed(ProcessLauncher):
    """How long its last start took: wall clock, and CPU time of this process."""

    spent_s = (0.0, 0.0)

    def start(self, *arguments: object, **options: object) -> object:  # type: ignore[override]
        """Start and time it."""
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        server = super().start(*arguments, **options)  # type: ignore[arg-type]
        _Timed.spent_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        return server


def measured(model: ModelArtifact, folder: Path, setting: str, requests: int) -> list[float]:
    """``FIGURES`` of one start and its requests."""
    os.environ[SANDBOX] = setting
    image = {"image": np.zeros((1, *SHAPE), np.float32)}
    with served("onnxruntime", model, folder) as started:
        server = psutil.Process(started.server.pid)
        ready_cpu_s = _cpu_s(server)
        for _ in range(100):
            started.probe.infer(image)
        before_s, taken_s = _cpu_s(server), []
        for _ in range(requests):
            begin_s = time.perf_counter()
            started.probe.infer(image)
            taken_s.append(time.perf_counter() - begin_s)
        request_cpu_s = (_cpu_s(server) - before_s) / requests
        ready_s = (started.process_ms + started.model_load_ms) / 1e3
    p50_s = float(np.median(taken_s))
    return [*_Timed.spent_s, ready_s, ready_cpu_s, request_cpu_s * 1e6, p50_s * 1e6]


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def spread(differences: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Of the median of each column: its value, and the bounds of a bootstrap's 95%."""
    draws = rng.integers(len(differences), size=(2000, len(differences)))
    medians = np.median(differences[draws], axis=1)
    return np.vstack([np.median(differences, axis=0), np.percentile(medians, [2.5, 97.5], axis=0)])


def main() -> int:
    """Print the table; 1 where a bound is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    rows: dict[str, list[list[float]]] = {"on": [], "off": []}
    with tempfile.TemporaryDirectory() as name:
        model = small_cnn(Path(name) / "model.onnx")
        for setting in ("on", "off"):  # what is read and compiled once
            measured(model, Path(name), setting, 1)
        for _ in range(args.pairs):
            for setting in rng.permutation(["on", "off"]):
                rows[setting].append(measured(model, Path(name), str(setting), args.requests))
    os.environ[SANDBOX] = "on"
    on, off = np.array(rows["on"]), np.array(rows["off"])
    differences = spread(on - off, rng)
    print(f"sandbox: {state()}; {args.pairs} pairs, {args.requests} requests each")
    print(f"{'':16} {'without':>10} {'with':>10} {'difference':>11}   95%")
    for at, figure in enumerate(FIGURES):
        value, low, high = differences[:, at]
        medians = np.median(off[:, at]), np.median(on[:, at])
        print(f"{figure:16} {medians[0]:10.4f} {medians[1]:10.4f} {value:+11.4f}   {low:+.4f} to {high:+.4f}")
    start_s = differences[0, FIGURES.index("launch_cpu_s")] + differences[0, FIGURES.index("server_cpu_s")]
    column = FIGURES.index("request_cpu_us")
    request_ratio = differences[1, column] / float(np.median(off[:, column]))
    return int(start_s > MOST_START_S or request_ratio > MOST_REQUEST_RATIO)


if __name__ == "__main__":
    import bench_servers

    bench_servers.ProcessLauncher = _Timed  # type: ignore[misc]
    sys.exit(main())
