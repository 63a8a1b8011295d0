"""The machine's own ceilings: what a matrix product and a triad reach on one core.

Measured over CPU time, so that a process that was set aside for others does not lower them, and kept per
processor; the best of several repetitions counts, as a ceiling's definition wants.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from inferbench_tasks.errors import StageError

_PROGRAM = """
import json, time
import numpy as np
def best(work, size, seconds):
    rate, started = 0.0, time.process_time()
    work()
    while time.process_time() - started < seconds:
        before = time.process_time()
        for _ in range(3):
            work()
        rate = max(rate, 3 * size / (time.process_time() - before))
    return rate
n = 1024
a, b, c = (np.random.default_rng(i).random((n, n), dtype=np.float32) for i in range(3))
sgemm = best(lambda: np.matmul(a, b, out=c), 2 * n ** 3, 0.8)
m = 8_000_000
x, y, z = (np.ones(m, dtype=np.float32) for _ in range(3))
def triad():
    np.multiply(y, 3.0, out=x)
    np.add(x, z, out=x)
# Two passes: y read, x written; x and z read, x written (each write also reads its line first).
bandwidth = best(triad, (2 + 1 + 3) * 4 * m, 0.8)
print(json.dumps({"sgemm_gflops": sgemm / 1e9, "triad_gb_s": bandwidth / 1e9}))
"""


@dataclass(frozen=True)
class Ceilings:
    """One core's: FLOP/s of fp32 matrix products and bytes/s of a triad over arrays larger than the caches."""

    gflops: float
    gb_s: float


def measured_ceilings(cache_dir: Path, processor: str) -> Ceilings:
    """This machine's, from the cache or measured now (two seconds of one core); StageError if that fails."""
    path = cache_dir / "ceilings.json"
    try:
        document = json.loads(path.read_text())
        if document["processor"] == processor:
            return Ceilings(document["sgemm_gflops"], document["triad_gb_s"])
    except (OSError, ValueError, KeyError):
        pass  # not measured yet, or a file that is not ours: measured again
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    process = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **threads},
        check=False,
    )
    if process.returncode:
        raise StageError(f"The machine's ceilings can't be measured: {process.stderr.strip()[-300:]}")
    rates = json.loads(process.stdout)
    cache_dir.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"processor": processor, **rates}))
    temporary.replace(path)
    return Ceilings(rates["sgemm_gflops"], rates["triad_gb_s"])
