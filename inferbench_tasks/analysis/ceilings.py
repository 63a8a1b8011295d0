"""The machine's own ceilings: what a matrix product and a triad reach on one core.

Measured over CPU time, so that a process that was set aside for others does not lower them, and kept per
processor; the best of several repetitions counts, as a ceiling's definition wants. Each array of the triad is four
times as large as all last-level caches together (McCalpin's rule for STREAM), or it would measure a cache: some
processors have 256 MB and more. Where memory is too small for that, the bandwidth is not known.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks.errors import StageError
from inferbench_tasks.memory import left_bytes

if TYPE_CHECKING:
    from inferbench_tasks.perfdb.documents import ResultDocument

_PROGRAM = """
import json, sys, time
import numpy as np
def best(work, size, seconds, times):
    rate, started = 0.0, time.process_time()
    while not rate or time.process_time() - started < seconds:
        before = time.process_time()
        for _ in range(times):
            work()
        rate = max(rate, times * size / (time.process_time() - before))
    return rate
n = 1024
a, b, c = (np.random.default_rng(i).random((n, n), dtype=np.float32) for i in range(3))
np.matmul(a, b, out=c)  # the first starts the library
sgemm = best(lambda: np.matmul(a, b, out=c), 2 * n ** 3, 0.8, 3)
m = int(sys.argv[1]) // 4
x, y = (np.ones(m, dtype=np.float32) for _ in range(2))
def triad():
    np.multiply(y, 3.0, out=x)
    np.add(x, y, out=x)
# Two passes: y read, x written; x and y read, x written (each write also reads its line first). No cache has the
# beginning of an array of four times its size when the second pass comes to it.
bandwidth = best(triad, (2 + 1 + 3) * 4 * m, 0.8, 1)
print(json.dumps({"sgemm_gflops": sgemm / 1e9, "triad_gb_s": bandwidth / 1e9}))
"""


#: An array of the triad is so many times the caches, at least so large; both take at most that share of memory.
_TIMES_CACHE, _LEAST_BYTES, _MOST_MEMORY_RATIO = 4, 32_000_000, 0.5
_TIMEOUT_S = 120
#: In the cache of the data directory: the folder that they are kept in.
CACHE = "roofline"
_FILE = "ceilings.json"
_CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Ceilings:
    """One core's: FLOP/s of fp32 matrix products and bytes/s of a triad over arrays larger than the caches.

    ``array_bytes``: the size of each of its two arrays; ``cache_bytes``: of all last-level caches, None where the
    system doesn't tell it.
    """

    gflops: float
    gb_s: float
    array_bytes: int = 0
    cache_bytes: int | None = None


def last_level_cache_bytes(cpus: Path = _CPUS) -> int | None:
    """All last-level caches of the machine together: the largest level of each CPU, shared ones counted once."""
    caches: dict[str, int] = {}
    for cpu in cpus.glob("cpu[0-9]*"):
        levels: dict[int, tuple[str, int]] = {}
        for index in (cpu / "cache").glob("index[0-9]*"):
            try:
                level = int((index / "level").read_text())
                size = _bytes((index / "size").read_text().strip())
                sharers = (index / "shared_cpu_list").read_text().strip()
            except (OSError, ValueError):
                continue  # a hypervisor may leave out what it does not emulate
            levels[level] = (sharers, size)
        if levels:
            sharers, size = levels[max(levels)]
            caches[sharers] = size
    return sum(caches.values()) or None


def triad_array_bytes(cache_bytes: int | None, memory_bytes: int) -> int | None:
    """The size of each array of the triad; None where two of them don't fit into the machine's free memory."""
    size = max(_LEAST_BYTES, _TIMES_CACHE * (cache_bytes or 0))
    return size if 2 * size <= _MOST_MEMORY_RATIO * memory_bytes else None


def _bytes(text: str) -> int:
    """``32768K`` as a number."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    return int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text)


def measured_ceilings(cache_dir: Path, processor: str) -> Ceilings:
    """This machine's, from the cache or measured now (some seconds of one core).

    StageError if that fails, or where the machine has too little free memory for arrays that its caches don't hold.
    """
    import psutil

    path = cache_dir / _FILE
    cache_bytes = last_level_cache_bytes()
    free_bytes, left = psutil.virtual_memory().available, left_bytes()
    array_bytes = triad_array_bytes(cache_bytes, free_bytes if left is None else min(free_bytes, left))
    if array_bytes is None:
        raise StageError(
            "The machine's memory bandwidth can't be measured: two arrays of four times its last-level caches "
            f"({_TIMES_CACHE * (cache_bytes or 0) / 1e6:,.0f} MB each) don't fit into half of its free memory"
        )
    if (kept := _read(path, processor, array_bytes)) is not None:
        return kept
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    try:
        process = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(array_bytes)],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            env={**os.environ, **threads},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StageError(f"The machine's ceilings were not measured within {_TIMEOUT_S} s") from error
    if process.returncode:
        raise StageError(f"The machine's ceilings can't be measured: {process.stderr.strip()[-300:]}")
    rates = json.loads(process.stdout)
    cache_dir.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    sizes = {"array_bytes": array_bytes, "cache_bytes": cache_bytes}
    temporary.write_text(json.dumps({"processor": processor, **sizes, **rates}))
    temporary.replace(path)
    return Ceilings(rates["sgemm_gflops"], rates["triad_gb_s"], array_bytes, cache_bytes)


def kept_ceilings(cache_dir: Path, processor: str) -> Ceilings | None:
    """What ``measured_ceilings`` has kept of this machine; None where it has not measured them. Measures nothing."""
    return _read(cache_dir / _FILE, processor, triad_array_bytes(last_level_cache_bytes(), sys.maxsize) or 0)


def processor_of(results: Iterable[ResultDocument]) -> str | None:
    """This machine's, where these results are of it: all that have a throughput, one at least, ran on a processor as
    this one. Without one there is no point to draw, and a run that failed may tell of no hardware. None else.

    Runs of other hosts under this one's ceilings would look right, and be wrong.
    """
    from inferbench_tasks.monitors import environment

    processor = environment.processor()
    of_here = [
        result.device.kind == "cpu" and (result.environment.get("hardware") or {}).get("cpu") == processor
        for result in results
        if result.summary.throughput_rps
    ]
    return processor if of_here and all(of_here) else None


def kept_of(results: Iterable[ResultDocument], data_dir: Path) -> Ceilings | None:
    """What is kept here of the machine that these results are of; None where that is another, see ``processor_of``."""
    processor = processor_of(results)
    return kept_ceilings(data_dir / "cache" / CACHE, processor) if processor else None


def _read(path: Path, processor: str, array_bytes: int) -> Ceilings | None:
    """None where there is none of that processor, no file of ours, or one whose arrays were smaller: perhaps a cache's,
    as an earlier version measured it.
    """
    try:
        document = json.loads(path.read_text())
        if document["processor"] == processor and document["array_bytes"] >= array_bytes:
            return Ceilings(
                document["sgemm_gflops"],
                document["triad_gb_s"],
                document["array_bytes"],
                document["cache_bytes"],
            )
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None
