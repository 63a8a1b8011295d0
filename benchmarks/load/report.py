"""What a run of a million samples costs after its load: figures, result in PerfDB, report.

    python -m benchmarks.load.report [--samples 1000000] [--rounds 3]

The raw records (with the server's spans) and a recording lie on disk, PerfDB runs. One process then does what the
stages ``collect`` and ``analyze`` do, from the start of Python to the report's last byte. Prints seconds of the
wall's clock and of the CPU, and the largest resident set, per round. Gate: 3 s and 1 GB in the best round, since
what disturbs a machine only ever adds. Exit code 1 beyond it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from inferbench_tasks.perfdb.store import PerfDB

WALL_S, RSS_BYTES = 3.0, 1e9
SECONDS = 10


def prepare(folder: Path, uri: str, run_id: str, samples: int) -> None:
    """The input of ``collect``, with its files."""
    from inferbench_tasks.loadgen.layout import spans_of
    from inferbench_tasks.stages.base import Context
    from tests.integration.test_analysis import stage_input
    from tests.samples import write_table
    from tests.unit.analysis.builders import records

    ctx = Context(data_dir=folder, perfdb_uri=uri)
    inp = stage_input(ctx, run_id=run_id)
    rate = samples / 8  # 8 of the 10 s are measured
    total = int(rate * SECONDS)
    rng = np.random.default_rng(2)
    spans = {name: rng.integers(10_000, 900_000, total) for name in spans_of("server").values()}
    table = records(5.0, rate_rps=rate, seconds=8, **spans)
    write_table(table, ctx.run_dir(run_id) / "samples.parquet")
    (folder / f"{run_id}.json").write_text(inp.model_dump_json())


def child(folder: Path, uri: str, run_id: str) -> None:
    """Figures, result, report; what it took."""
    from inferbench_tasks.analysis.report.compose import make_report
    from inferbench_tasks.stages import collect
    from inferbench_tasks.stages.base import Context

    ctx = Context(data_dir=folder, perfdb_uri=uri)
    imported = time.monotonic()
    inp = collect.Input.model_validate_json((folder / f"{run_id}.json").read_text())
    collect.run(inp, ctx)
    collected = time.monotonic()
    with PerfDB.connect(uri, folder) as db:
        make_report(db, [run_id], {"name": "million"}, folder / f"{run_id}.html")
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "collect_s": collected - imported,
                "report_s": time.monotonic() - collected,
                "cpu_s": used.ru_utime + used.ru_stime,
                "rss_bytes": used.ru_maxrss * 1024,
            }
        )
    )


def main() -> int:
    """Measure and print; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=3, metavar=("FOLDER", "URI", "RUN"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(Path(options.child[0]), *options.child[1:])
        return 0
    best_s, most_bytes = float("inf"), 0.0
    with tempfile.TemporaryDirectory(prefix="inferbench-report-") as name:
        folder = Path(name)
        with PerfDB.connect(None, folder) as db:
            for number in range(options.rounds):
                run_id = f"million.{number:03}"
                prepare(folder, db.uri, run_id, options.samples)
                began = time.monotonic()
                process = subprocess.run(
                    [sys.executable, "-m", "benchmarks.load.report", "--child", name, db.uri, run_id],
                    capture_output=True, text=True, check=True,
                )  # fmt: skip
                wall_s = time.monotonic() - began
                result = json.loads(process.stdout.splitlines()[-1])
                page = folder / f"{run_id}.html"
                print(
                    f"wall {wall_s:.2f} s (collect {result['collect_s']:.2f}, report {result['report_s']:.2f}), "
                    f"CPU {result['cpu_s']:.2f} s, {result['rss_bytes'] / 1e6:.0f} MB, "
                    f"page {page.stat().st_size / 1e6:.1f} MB"
                )
                best_s, most_bytes = min(best_s, wall_s), max(most_bytes, result["rss_bytes"])
    ok = best_s <= WALL_S and most_bytes <= RSS_BYTES
    text = f"{best_s:.2f} s (at most {WALL_S:g}), {most_bytes / 1e6:.0f} MB (at most {RSS_BYTES / 1e6:,.0f})"
    print(f"{'kept' if ok else 'MISSED'}: {text}")
    return int(not ok)


if __name__ == "__main__":
    sys.exit(main())
