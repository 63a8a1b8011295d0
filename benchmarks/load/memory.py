"""Resident memory of a long load: the command and all its senders, while it sends and while it works out the figures.

    python -m benchmarks.load.memory [--seconds 180] [--rate 5000] [--replay 3000000]

Runs ``inferbench load run`` at a Poisson rate against a null server and samples the sum of the resident
memory of the command and its senders (not of the null server) five times a second. Prints the peak of each
part and the slope while it sends. ``--replay N`` makes N records instead, as many as a longer load would leave,
and measures what comes after the load: 3,000,000 are ten minutes at 5,000 requests/s. Gate: below 500 MB.

Measured for 180 s at 5,000 requests/s, on two cores that were busy with other work (the load itself was not
valid there, with up to 33,000 requests in flight): 244 MB while sending, growing by 1.1 MB per minute, so 251 MB
after ten minutes; 314 MB while 900,000 records were worked out.
``--replay 3000000``: 413 MB up to the summary, 453 MB with the certificate: pass.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

from inferbench_tasks.loadgen.null_server import null_server

GATE_MB = 500.0
_SAMPLE_S = 0.2


def resident_mb(process: psutil.Process) -> tuple[float, int]:
    """Of a process and its senders, together; and how many senders there are."""
    total, senders = process.memory_info().rss, 0
    for child in process.children(recursive=True):
        try:
            if "inferbench_tasks.loadgen.shard" in child.cmdline():
                total += child.memory_info().rss
                senders += 1
        except psutil.Error:
            continue
    return total / 2**20, senders


def run(seconds: int, rate: float) -> float:
    """The load for real; the peak in MB."""
    with tempfile.TemporaryDirectory() as folder, null_server("http", 64) as where:
        inputs = Path(folder) / "inputs.npz"
        np.savez(inputs, input=np.zeros((16, 16), np.float32))
        command = [
            sys.executable, "-m", "inferbench_tasks.cli.main", "load", "run", "--url",
            f"http://{where.url}/null", "--input", str(inputs), "--arrivals", f"poisson:{rate:g}", "--duration",
            str(seconds), "--warmup", "2", "--allow-unsafe-load", "--save", folder,
        ]  # fmt: skip
        environment = {**os.environ, "INFERBENCH_DATA_DIR": os.environ.get("INFERBENCH_DATA_DIR", folder)}
        samples = []
        with subprocess.Popen(command, env=environment) as started:
            process = psutil.Process(started.pid)
            while started.poll() is None:
                try:
                    samples.append((time.monotonic(), *resident_mb(process)))
                except psutil.Error:
                    break
                time.sleep(_SAMPLE_S)
    times, megabytes, senders = (np.array(column) for column in zip(*samples, strict=True))
    sending = senders > 0
    last = np.flatnonzero(sending)[-1]
    # The ceiling is measured first, in short loads of its own: the load is the last stretch of that length.
    load = sending & (times > times[last] - seconds) & (times <= times[last])
    slope = float(np.polyfit(times[load], megabytes[load], 1)[0])
    peak = float(megabytes.max())
    print(f"sending: {megabytes[load].max():.0f} MB at most, {slope * 60:+.2f} MB per minute")
    print(f"afterwards: {megabytes[last:].max():.0f} MB at most")
    print(
        f"sending for ten minutes at that slope: {megabytes[load].max() + max(0, slope) * (600 - seconds):.0f} MB"
    )
    return peak


def replay(records: int, rate: float) -> float:
    """What follows a load with so many records, in a process of its own; the peak in MB."""
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.load.memory", "--inner", str(records), "--rate", str(rate)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    print(process.stdout, end="")
    return float(process.stdout.splitlines()[-1].split()[-2])


def inner(records: int, rate: float) -> None:
    """Spool, steady state, Parquet, summary, certificate; prints the peak after each."""
    from inferbench_tasks.loadgen.certificate import OpenPlan, ShardUsage, certify
    from inferbench_tasks.loadgen.layout import row_dtype
    from inferbench_tasks.loadgen.memory import give_freed_memory_back
    from inferbench_tasks.loadgen.merging import merge
    from inferbench_tasks.loadgen.records import column, read_samples
    from inferbench_tasks.loadgen.spool import _HEADER_BYTES, Recorder, Spool
    from inferbench_tasks.loadgen.steady import find_steady_state
    from inferbench_tasks.loadgen.summary import summarise
    from inferbench_tasks.loadgen.window import WINDOW_COLUMNS

    give_freed_memory_back()

    def tell(what: str) -> None:
        print(f"{what}: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB", flush=True)

    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        spool, samples = Path(folder) / "0.spool", Path(folder) / "samples.parquet"
        Recorder(spool).close()
        assert spool.stat().st_size == _HEADER_BYTES
        start_ns = at_ns = 10**15
        with open(spool, "ab") as file:
            for first in range(0, records, 50_000):
                rows = np.zeros(min(50_000, records - first), row_dtype(spans=False))
                rows["intended_ns"] = at_ns + np.cumsum(rng.exponential(1e9 / rate, len(rows))).astype(
                    np.int64
                )
                at_ns = int(rows["intended_ns"][-1])
                rows["request_id"] = np.arange(first, first + len(rows))
                rows["sent_ns"] = rows["intended_ns"] + rng.gamma(2, 30_000, len(rows)).astype(np.int64)
                rows["done_ns"] = rows["sent_ns"] + rng.gamma(4, 500_000, len(rows)).astype(np.int64)
                rows["first_byte_ns"] = rows["done_ns"] - 1000
                rows["batch_size"], rows["phase"] = 1, 1
                file.write(rows.tobytes())
        end_ns = at_ns + 1
        tell("records made")
        parts = [piece[["done_ns", "intended_ns"]] for piece in Spool(spool).pieces()]
        done_ns = np.concatenate([part["done_ns"] for part in parts])
        latency = done_ns - np.concatenate([part["intended_ns"] for part in parts])
        del parts
        find_steady_state(done_ns, latency, start_ns=start_ns, end_ns=end_ns)
        del done_ns, latency
        tell("steady state")
        merge([spool], samples, measure_window_ns=(start_ns, end_ns))
        tell("merged")
        summarise(read_samples(samples, WINDOW_COLUMNS), measure_start_ns=start_ns, measure_end_ns=end_ns)
        tell("summary")
        intended_ns = column(read_samples(samples, ["intended_ns"]), "intended_ns")
        plan = OpenPlan(intended_ns, request_id=np.arange(records), shards=1, timeout_ns=10**10)
        stall = (start_ns + 10**9, start_ns + 10**9 + 5_000_000)
        usage = ShardUsage(
            shard=0, cpu_s=1.0, wall_s=600.0, max_stall_ns=5_000_000, stalls_ns=(stall,), stalled_ns=5_000_000
        )
        table = read_samples(samples, WINDOW_COLUMNS)
        certify(table, plan, [usage], measure_start_ns=start_ns, measure_end_ns=end_ns)
        tell("certificate, and so the peak")


def main() -> None:
    """Run the command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--rate", type=float, default=5000.0)
    parser.add_argument("--replay", type=int)
    parser.add_argument("--inner", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inner:
        inner(arguments.inner, arguments.rate)
        return
    peak = (
        replay(arguments.replay, arguments.rate)
        if arguments.replay
        else run(arguments.seconds, arguments.rate)
    )
    print(f"peak {peak:.0f} MB -> {'pass' if peak < GATE_MB else 'FAIL'} (gate: {GATE_MB:.0f} MB)")


if __name__ == "__main__":
    main()
