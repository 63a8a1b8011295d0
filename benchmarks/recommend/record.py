"""Record the full grid of configurations of one model on this machine, by the product's own stages.

    python -m benchmarks.recommend.record cnn --seconds 300

A grid is worth what the machine's quiet is worth: beside other work, what a configuration gets depends more on its
neighbours than on its settings, and no search can find what is not there. Run nothing else.

Each server is started once and measured under all loads; servers and loads come in a seeded random order, so
that a drift of the machine does not look like an axis. Every measurement is one row of the data set and stays
there, with its verdict and the CPU that others used meanwhile, also one that something disturbed; such a point is
measured again (up to ``TRIES`` times) once all others are there. Stops after ``--seconds``; the next call goes on
where it stopped. ``--repeat N`` measures the points of every third server (``--every 1``: of all) until each has N
good rows, so that the noise is known; of one noisy row each, the best of a grid is partly the luckiest.
Exit code 2: begun on another machine or with other versions; 3: not finished; 4: not finished, and the machine was
too busy to go on.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.recommend import recorded
from benchmarks.recommend.recorded import DATA, QUIET_CORES, append, read_rows
from benchmarks.recommend.space import AXES, LOAD_AXES, MAX_BATCH_SIZE, SERVE_AXES, Point, grid, job_of
from inferbench_tasks import settings
from inferbench_tasks.loadgen.statistics import FLOORS
from inferbench_tasks.monitors import environment
from inferbench_tasks.monitors.records import read_recording
from inferbench_tasks.running.perform import perform
from inferbench_tasks.stages import collect, convert, generate, judgement, load, release, serve
from inferbench_tasks.stages.base import Context

SEED = 20
TRIES = 3
WARMUP_S, MEASURE_S, LONGEST_S = 0.4, 1.5, 6.0
#: What all rows of a grid have in common: who goes on with it elsewhere is refused.
SAME = ("cpu", "cores_logical", "onnxruntime", "openvino", "inferbench")
#: So many requests support a p99, with a little to spare.
WANTED = int(1.15 * FLOORS[0.99])


def main() -> int:
    """Measure what is missing; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", choices=["cnn", "mlp"])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--repeat", type=int, default=1, help="good rows of each configuration")
    parser.add_argument("--every", type=int, default=3, help="with --repeat: of every so many servers")
    parser.add_argument(
        "--busy-cores", type=float, default=2 * QUIET_CORES, help="stop where others use more"
    )
    parser.add_argument("--to", type=Path, default=DATA, help="the data sets' folder")
    options = parser.parse_args()
    deadline = time.monotonic() + options.seconds
    path = options.to / f"{options.model}.parquet"
    before, now = recorded.about(path), about()
    if different := [name for name in before if name in SAME and before[name] != now.get(name)]:
        told = ", ".join(f"{name} {before[name]} (now {now.get(name)})" for name in different)
        print(
            f"{path} was begun with {told}; one grid is of one machine and one set of versions. Choose another --to."
        )
        return 2
    rng = random.Random(SEED)
    servers = grid(SERVE_AXES)
    rng.shuffle(servers)
    if options.repeat > 1:
        servers = servers[:: options.every]
    loads = grid(LOAD_AXES)
    # The whole grid once before any point a second time.
    for level in range(1, TRIES + options.repeat):
        for point in servers:
            rng.shuffle(loads)
            known = read_rows(path)
            missing = [one for one in loads if _open(known, {**point, **one}, options.repeat, level)]
            if not missing:
                continue
            if time.monotonic() > deadline:
                print(f"pass {level} goes on in the next call")
                return 3
            if (busy := busy_cores()) > options.busy_cores:
                print(f"others use {busy:.2f} cores, at most {options.busy_cores:g} are allowed; go on later")
                return 4
            measure_server(options.model, point, missing, path, deadline)
    return 0


def busy_cores() -> float:
    """How many cores are in use while this does nothing."""
    cores = psutil.cpu_count() or 1
    return float(psutil.cpu_percent(interval=1.0)) / 100 * cores


def _open(known: list[dict[str, Any]], point: Point, wanted: int, level: int) -> bool:
    """Whether a point has less than ``wanted`` good rows and less than ``level`` in all."""
    mine = [row for row in known if all(row[axis] == point[axis] for axis in AXES)]
    good = [row for row in mine if row["verdict"] == "valid" and row["foreign_cores"] <= QUIET_CORES]
    told = [row for row in good if row["p99_ms"] is not None or WANTED / row["throughput_rps"] > LONGEST_S]
    return len(told) < wanted and len(mine) < level


def _seconds(known: list[dict[str, Any]], point: Point) -> float:
    """How long to measure: the second time as long as a p99 needs, by the rate that was seen the first time."""
    rates = [row["throughput_rps"] for row in known if all(row[axis] == point[axis] for axis in AXES)]
    return max(MEASURE_S, min(LONGEST_S, WANTED / max(1.0, min(rates)))) if rates else MEASURE_S


def measure_server(model: str, point: Point, loads: list[Point], path: Path, deadline: float) -> None:
    """One server under each of the loads, until the deadline."""
    data_dir = settings.writable(settings.data_dir())
    ctx = Context(data_dir=data_dir)
    session = f"{model}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
    widest = {**point, "batch_size": MAX_BATCH_SIZE, "concurrency": 1}
    job = job_of(model, widest, duration_s=MEASURE_S, warmup_s=WARMUP_S)
    base = {"run_id": session, "job_id": session, "job": job}
    generated = perform(generate, generate.Input(**base), ctx)
    converted = perform(convert, convert.Input(**base, generate=generated), ctx)
    served = serve.run(serve.Input(**base, generate=generated, convert=converted), ctx)
    try:
        for one in loads:
            if time.monotonic() > deadline:
                return
            full = {**point, **one}
            seconds = _seconds(read_rows(path), full)
            row = measure(model, full, base, generated, converted, served, ctx, seconds)
            append(path, {**{axis: full[axis] for axis in AXES}, **row, "session": session}, about())
            print(
                f"{full}  {row['throughput_samples_per_s']:.0f} samples/s  p99 {row['p99_ms']}  foreign "
                f"{row['foreign_cores']:.2f}  {row['verdict'][:60]}",
                flush=True,
            )
    finally:
        release.run(release.Input(**base, serve=served), ctx)


def measure(
    model: str, point: Point, base: dict[str, Any], generated: generate.Output, converted: convert.Output,
    served: serve.Output, ctx: Context, duration_s: float,
) -> dict[str, Any]:  # fmt: skip
    """One load on the running server, summarised and judged as in every run."""
    job = job_of(model, point, duration_s=duration_s, warmup_s=WARMUP_S)
    base = {**base, "job": job}
    loaded = load.run(load.Input(**base, generate=generated, serve=served), ctx)
    assert loaded.monitors_path
    recording = read_recording(Path(loaded.monitors_path))
    inp = collect.Input(**base, generate=generated, convert=converted, serve=served, load=loaded)
    summary = collect.figures(inp, recording, environment.hardware()).model_dump()
    latency, used = summary["e2e_latency_ms"], summary["resources"]
    start_ns, end_ns = loaded.measure_start_ns, loaded.measure_end_ns
    seconds = (end_ns - start_ns) / 1e9

    def cores(source: str, counter: str) -> float:
        series = recording.get(source, counter)
        return (series.increase(start_ns, end_ns) or 0.0) / seconds if series else 0.0

    server_cores = used["server"]["cpu_cores"]["mean"]
    samples = summary["throughput_samples_per_s"]
    return {
        "verdict": str(judgement.judge(loaded.certificate, loaded.stopped_early, summary["interference"])),
        "foreign_cores": max(
            0.0, cores("host", "cpu_busy_s_total") - server_cores - cores("client", "cpu_s_total")
        ),
        "steal_ratio": cores("host", "cpu_steal_s_total") / environment.hardware()["cores_logical"],
        "requests": summary["requests"],
        "error_ratio": summary["error_ratio"],
        "duration_s": seconds,
        "throughput_rps": summary["throughput_rps"],
        "throughput_samples_per_s": samples,
        **{f"{q}_ms": latency[q] for q in ("mean", "p50", "p95", "p99")},
        "server_cpu_cores": server_cores,
        "cpu_ms_per_sample": 1000 * server_cores / samples if samples else None,
        "rss_mib": used["server"]["rss_bytes"]["max"] / 2**20,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def about() -> dict[str, str]:
    """The machine and the versions that a data set was recorded with."""
    hardware, versions = environment.hardware(), environment.versions()
    told: dict[str, Any] = {
        name: hardware[name] for name in ("cpu", "cores_logical", "memory_bytes") if name in hardware
    }
    return {name: str(value) for name, value in {**told, **versions}.items() if value is not None}


if __name__ == "__main__":
    sys.exit(main())
