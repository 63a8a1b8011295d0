"""Record real noise: nights of an unchanged pair, baseline and candidate in turns, as a small Parquet.

    python -m benchmarks.regression.record benchmarks/regression/noise.parquet --nights 30 --pairs 8

A night starts two fresh servers from the same code (the pipeline's own generate, convert and serve stages) and
asks them in turns, A B B A: a run is half a second of one request after another over one connection. Whatever differs
between the sides is noise. Rows are appended night by night; a file that exists is continued.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.regression.workplace import workplace
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.running.execute import execute_node
from inferbench_tasks.running.invocation import Invocation
from inferbench_tasks.submission.schema import Submission

SUBMISSION = {
    "name": "noise",
    "model": {"kind": "zoo", "name": "digits"},
    "load": {"arrivals": {"kind": "closed_loop", "concurrency": 1}, "duration_s": 1},
}
RUN_S = 0.5
SAMPLE = [0.5] * 64


@contextlib.contextmanager
def server(data_dir: Path) -> Iterator[dict[str, Any]]:
    """A fresh server; its endpoint."""
    submission = Submission.model_validate(SUBMISSION)
    invocation = Invocation.new(data_dir, submission.name)
    outputs: dict[str, dict[str, Any]] = {}
    nodes = {node.stage: node for node in compile_plan(submission).nodes}

    def stage(name: Any) -> None:
        outputs[name] = execute_node(
            nodes[name], outputs, invocation=invocation, base_dir=data_dir, data_dir=data_dir,
            hold_machine=False,  # a night's two servers stand side by side, one asked at a time
        )  # fmt: skip

    for name in ("generate", "convert", "serve"):
        stage(name)
    try:
        yield outputs["serve"]["endpoint"]
    finally:
        stage("release")


def one_run(endpoint: dict[str, Any]) -> dict[str, float]:
    """Half a second of requests, one after the other: latencies, ms."""
    connection = http.client.HTTPConnection(endpoint["host"], endpoint["port"], timeout=10)
    path = f"/v2/models/{endpoint['model_name']}"
    connection.request("GET", path)
    name = json.loads(connection.getresponse().read())["inputs"][0]["name"]
    tensor = {"name": name, "shape": [1, len(SAMPLE)], "datatype": "FP32", "data": SAMPLE}
    body = json.dumps({"inputs": [tensor]})
    latencies_ms = []
    end = time.monotonic() + RUN_S
    while (before := time.monotonic()) < end:
        connection.request("POST", f"{path}/infer", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        latencies_ms.append(1e3 * (time.monotonic() - before))
        assert answer.status == 200, answer.status
    connection.close()
    p50, p90, p95 = np.quantile(latencies_ms, [0.5, 0.9, 0.95])
    return {
        "mean_ms": float(np.mean(latencies_ms)), "p50_ms": p50, "p90_ms": p90, "p95_ms": p95,
        "requests": len(latencies_ms),
    }  # fmt: skip


def one_night(night: int, pairs: int, data_dir: Path) -> list[dict[str, Any]]:
    """Two fresh servers, asked in turns; a row per run."""
    rows = []
    with server(data_dir) as baseline, server(data_dir) as candidate:
        ends = {"b": ("baseline", baseline), "c": ("candidate", candidate)}
        for _, endpoint in ends.values():
            one_run(endpoint)  # warm
        for position, who in enumerate(itertools.islice(itertools.cycle("bccb"), 2 * pairs)):
            side, endpoint = ends[who]
            row = {"night": night, "position": position, "side": side, "at_s": time.time()}
            rows.append(row | one_run(endpoint))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=4, help="stop after the night that passes this")
    options = parser.parse_args()
    frame = pd.read_parquet(options.file) if options.file.exists() else None
    first = 0 if frame is None else int(frame["night"].max()) + 1
    began = time.monotonic()
    with workplace() as (_, data_dir):
        for night in range(first, options.nights):
            rows = one_night(night, options.pairs, data_dir)
            frame = pd.DataFrame(rows) if frame is None else pd.concat([frame, pd.DataFrame(rows)])
            partial = options.file.with_name(f".{options.file.name}.part")
            frame.to_parquet(partial, index=False, compression="zstd")
            partial.replace(options.file)
            spent_s = time.monotonic() - began
            print(
                f"night {night} ({spent_s:.0f} s): {[round(float(r['p50_ms']), 2) for r in rows]}", flush=True
            )
            if spent_s > 60 * options.minutes:
                break
    print(
        f"{night + 1} of {options.nights} nights are recorded" if first < options.nights else "nothing to do"
    )


if __name__ == "__main__":
    main()
