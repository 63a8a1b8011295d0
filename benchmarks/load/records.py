"""What a million records cost: appended to a shard's spool as a load does, then merged into Parquet.

    python -m benchmarks.load.records [--records 1000000] [--rounds 5]

Prints CPU seconds (user and system, this process and its threads) per round, and the medians. Gate: append
and merge together below 1 s of CPU for a million records.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from pathlib import Path

import numpy as np

from inferbench_tasks.loadgen.layout import MEASURE
from inferbench_tasks.loadgen.merging import merge
from inferbench_tasks.loadgen.spool import Recorder


def cpu_s() -> float:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def one_round(folder: Path, rows: list[tuple[int, ...]]) -> tuple[float, float, int]:
    """CPU seconds to append and to merge, and the file's size in bytes."""
    start = cpu_s()
    with Recorder(folder / "0.spool") as recorder:
        append = recorder.append
        for row in rows:
            append(*row)
    appended = cpu_s()
    count = merge([folder / "0.spool"], folder / "samples.parquet", measure_window_ns=(0, 2**62))
    assert count == len(rows)
    return appended - start, cpu_s() - appended, (folder / "samples.parquet").stat().st_size


def records_of(records: int) -> list[tuple[int, ...]]:
    """Records of a Poisson load at 5,000 rps with a jittered latency, in the order of their ends."""
    rng = np.random.default_rng(1)
    intended = 10**15 + np.cumsum(rng.exponential(200_000, records)).astype(np.int64)
    sent_ns = intended + rng.gamma(2, 30_000, records).astype(np.int64)
    done_ns = sent_ns + rng.gamma(4, 500_000, records).astype(np.int64)
    first = done_ns - rng.integers(1_000, 20_000, records)
    order = np.argsort(done_ns)
    columns = [np.arange(records), np.full(records, MEASURE), intended, sent_ns, first, done_ns,
               np.zeros(records, np.int64), np.full(records, 1200), np.full(records, 260),
               np.arange(records) % 64, np.ones(records, np.int64)]  # fmt: skip
    return list(zip(*(column[order].tolist() for column in columns), strict=True))


def main() -> None:
    """Run the command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    rows = records_of(arguments.records)
    times_s = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.rounds):
            append_s, merge_s, size = one_round(Path(folder), rows)
            times_s.append((append_s, merge_s))
            print(
                f"round {number + 1}: append {append_s:.2f} s, merge {merge_s:.2f} s, together "
                f"{append_s + merge_s:.2f} s of CPU; {size / 1e6:.1f} MB"
            )
    append_s, merge_s = np.median(np.array(times_s), axis=0)
    together = float(np.median([sum(pair) for pair in times_s]))
    print(f"median: append {append_s:.2f} s, merge {merge_s:.2f} s, together {together:.2f} s", end=" ")
    print(f"-> {'pass' if together < 1 else 'FAIL'} (gate: < 1 s per million records)")


if __name__ == "__main__":
    main()
