"""What it costs a load that one of twenty of its requests is traced, and that tracing is there but off.

    python -m benchmarks.mlmodelscope.one_in [--starts 8] [--turns 6] [--seconds 2] [--rate 1000] [--rows FILE]

A model of one product of matrices on ONNX Runtime, so that a request is mostly what the server and tracing do. Each
start is a server of our own, which is asked in three ways:

    none    it has no recorder, no request is traced: as every run that is timed
    off     it has the recorder of the levels application and model, and no request asks for it
    one_in  the same, and of the requests one in twenty, chosen by chance, carries a context: `trace: {one_in: 20}`

The recorder is taken away and given back while the server is up (``switched_server``), for two servers differ by
several percent for as long as they live, whatever they do. In each turn the same short load (constant arrivals) is sent
in all three ways, and a closed loop in the first two; six turns have the ways in each order once. Judged are:

    the median latency of all requests of the measured window, from the intended moment
    the CPU time of the server by the requests that it answered, the warm-up's too
    the CPU time of the senders within the window by its requests
    of `off` the throughput of the closed loop

each by that of `none`, the throughput the other way round, so that more is worse. The geometric mean over the turns is
a start's figure, that over the starts the result, with Student's interval at 95% over the starts alone: turns of one
start have the same server and are no independent witnesses. More of them make a start's figure better, and do not stand
for more starts. Passed where the interval is not above the limit (one_in: 1.02; off: 1.01), FAILED where all of it is,
undecided else: more starts narrow it. A turn with a load that was not sent as it was meant to be is left out, of that
kind of load, and named. Exit code 0 if all have passed, 1 if one failed, 2 if none failed and one is undecided.

It takes about 17 minutes. Raw rows are written after each start; `--judge` judges those of before, and measures none.
"""

from __future__ import annotations

import argparse
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pandas as pd

from benchmarks.mlmodelscope.switched import Server, started
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.sampled_load import send
from inferbench_tasks.stages.trace_input import Input
from inferbench_tasks.submission.schema import loaded_only
from inferbench_tasks.tracing.leveled import Overhead, overheads
from tests.serving_cases import Case, dense_case, serve_input

ONE_IN = 20
#: Of each: whether the server has its recorder, whether requests ask to be traced, and what it may cost.
VARIANTS: dict[str, tuple[bool, bool, float]] = {
    "none": (False, False, 1.0),
    "off": (True, False, 1.01),
    "one_in": (True, True, 1.02),
}
ORDERS = tuple(permutations(VARIANTS))
OPEN, CLOSED = "open", "closed"
#: Which variants a load is sent in.
LOADS = {OPEN: ("none", "off", "one_in"), CLOSED: ("none", "off")}
#: Of the closed loop: more than the server can work on at once.
USERS = 4
WARMUP_S = 0.5
#: An interval of fewer starts says nothing.
LEAST_STARTS = 3


@dataclass(frozen=True)
class Figure:
    """A column of the raw rows, of one kind of load. ``power``: -1 where more of it is better."""

    words: str
    load: str
    column: str
    power: int = 1


FIGURES = (
    Figure("median latency", OPEN, "median_ms"),
    Figure("the server's CPU time per request", OPEN, "server_cpu_us"),
    Figure("the sender's CPU time per request", OPEN, "sender_cpu_us"),
    Figure("throughput of a closed loop", CLOSED, "rate_rps", power=-1),
)


def measured(
    server: Server, inp: Input, ctx: Context, variant: str, seed: str
) -> tuple[dict[str, Any], list[str]]:
    """A row of one load, and the traces that were asked for."""
    recorder, asks, _ = VARIANTS[variant]
    server.switch(recorder)
    before_ns = server.cpu_ns()
    sent = send(inp, ctx, server.endpoint, seed if asks else None, ONE_IN)
    used_us = (server.cpu_ns() - before_ns) / 1e3
    row = {
        "variant": variant,
        "median_ms": sent.median_ms,
        "server_cpu_us": used_us / sent.answered,
        "sender_cpu_us": sent.sender_cpu_s * 1e6 / sent.requests,
        "rate_rps": sent.requests / loaded_only(inp.job, "This benchmark").duration_s,
        "requests": sent.requests,
        "traced": len(sent.asked),
        "doubts": "; ".join(sent.doubts),
    }
    return row, [each.trace_id for each in sent.asked]


def one_start(
    case: Case, loads: Mapping[str, Input], ctx: Context, folder: Path, number: int, turns: int
) -> list[dict[str, Any]]:
    """The rows of one server's life."""
    folder.mkdir()
    rows: list[dict[str, Any]] = []
    asked: list[str] = []
    with started(case, folder) as server:
        for turn in range(turns):
            order = ORDERS[(number + turn) % len(ORDERS)]
            for load, variant in ((load, each) for load in LOADS for each in order if each in LOADS[load]):
                seed = f"{loads[load].run_id} {number} {turn}"
                row, traces = measured(server, loads[load], ctx, variant, seed)
                rows.append({"start": number, "turn": turn, "load": load, **row})
                asked += traces
    if missing := len(set(asked) - server.traced()):
        raise SystemExit(f"the server tells nothing of {missing} of {len(asked)} traced requests")
    return rows


def job(case: Case, folder: Path, arrivals: Mapping[str, Any], seconds: float) -> Input:
    """A load of that model."""
    load = {"arrivals": arrivals, "duration_s": seconds, "warmup_s": WARMUP_S}
    run_id = f"one-in-{uuid.uuid4().hex[:8]}"
    given = serve_input(case, folder, load=load, run_id=run_id, backend="onnxruntime", threads=1)
    fields = given.model_dump()
    fields["job"] |= {"trace": {"one_in": ONE_IN}}
    fields["job"]["convert"]["format"] = "onnx"
    return Input.model_validate({name: fields[name] for name in Input.model_fields})


def main() -> int:
    """Measure, judge, print; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=8, help="of the server")
    parser.add_argument("--turns", type=int, default=len(ORDERS), help="of each start")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each load, without its warm-up")
    parser.add_argument("--rate", type=float, default=1000.0, help="requests a second")
    parser.add_argument("--rows", type=Path, default=Path("build/one-in.parquet"), help="Raw rows, Parquet.")
    parser.add_argument("--judge", action="store_true", help="the rows that are there")
    options = parser.parse_args()
    if options.judge:
        return report(pd.read_parquet(options.rows))
    rows: list[dict[str, Any]] = []
    options.rows.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="one-in-") as name:
        folder = Path(name)
        case, ctx = dense_case(folder), Context(data_dir=folder / "data")
        arrivals: dict[str, dict[str, Any]] = {
            OPEN: {"kind": "constant", "rate_rps": options.rate},
            CLOSED: {"kind": "closed_loop", "concurrency": USERS},
        }
        loads = {load: job(case, folder, arrivals[load], options.seconds) for load in LOADS}
        for number in range(options.starts):
            rows += one_start(case, loads, ctx, folder / f"start-{number}", number, options.turns)
            pd.DataFrame(rows).to_parquet(options.rows)
            print(f"start {number + 1} of {options.starts}", flush=True)
    return report(pd.DataFrame(rows))


def per_start(rows: pd.DataFrame, figure: Figure) -> list[dict[str, float]]:
    """Of each start a figure of each variant, more of which is worse: the geometric mean over its turns."""
    return [
        {
            str(name): geometric_mean(values.tolist()) ** figure.power
            for name, values in of_start.groupby("variant")[figure.column]
        }
        for _, of_start in rows[rows["load"] == figure.load].groupby("start")
    ]


def word(cost: Overhead, limit: float) -> str:
    """Whether what it costs is within the limit, by its interval."""
    if cost.low is None or cost.high is None:
        return "undecided"
    return "passed" if cost.high <= limit else "FAILED" if cost.low > limit else "undecided"


def judged(starts: Sequence[Mapping[str, float]]) -> list[tuple[str, Overhead, float, str]]:
    """(variant, what it costs, limit, word) of each but the first; ``starts``: variant -> a figure, of which more is
    worse.
    """
    if len(starts) < LEAST_STARTS:
        return []
    names = [name for name in VARIANTS if name in starts[0]]
    costs: list[Any] = overheads(starts, names)  # type: ignore[arg-type]
    return [
        (name, cost, VARIANTS[name][2], word(cost, VARIANTS[name][2]))
        for name, cost in list(zip(names, costs, strict=True))[1:]
    ]


def without_doubts(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of turns all of whose loads of that kind were sent as they were meant to be; the others are named."""
    keys = ["start", "turn", "load"]
    doubtful = table[table["doubts"] != ""]
    lines: list[Any] = doubtful.to_dict("records")
    for row in lines:
        where = f"start {row['start'] + 1}, turn {row['turn'] + 1}, {row['load']} load"
        print(f"left out: {where}, {row['variant']}: {row['doubts']}")
    left_out = set(doubtful[keys].itertuples(index=False, name=None))
    return table[[key not in left_out for key in table[keys].itertuples(index=False, name=None)]]


def report(table: pd.DataFrame) -> int:
    """Print what the rows come to; the exit code."""
    kept = without_doubts(table)
    traced = kept[kept["variant"] == "one_in"]
    print(
        f"{kept['start'].nunique()} starts, {len(kept)} loads; of {traced['requests'].sum():,} requests "
        f"{traced['traced'].sum():,} were traced"
    )
    words = set()
    for figure in FIGURES:
        plain = kept[(kept["variant"] == "none") & (kept["load"] == figure.load)]
        print(f"{figure.words}, {figure.column} without {plain[figure.column].median():.4g}:")
        starts = per_start(kept, figure)
        results = judged(starts)
        if not results:
            print(f"    not judged: {len(starts)} starts count, {LEAST_STARTS} are needed")
            words.add("undecided")
        for name, cost, limit, decided in results:
            print(
                f"    {name}: {cost.ratio:.4f} ({cost.low:.4f} to {cost.high:.4f}), limit {limit}: {decided}"
            )
            words.add(decided)
    return 1 if "FAILED" in words else 2 if "undecided" in words else 0


if __name__ == "__main__":
    raise SystemExit(main())
