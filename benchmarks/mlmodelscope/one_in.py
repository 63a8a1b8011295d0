"""What it costs a load that one of twenty of its requests is traced, and that tracing is there but off.

    python -m benchmarks.mlmodelscope.one_in [--rounds 12] [--seconds 6] [--rate 1000] [--rows FILE]

A model of one product of matrices on ONNX Runtime, so that a request is mostly what the server and tracing do. In each
round the same load (constant arrivals) goes to three servers of our own, each started for it, in an order that turns:

    none    no recorder, no request traced: as every run that is timed
    off     a recorder, as of levels application and model, and no request asks for it
    one_in  the same, and of the requests one in twenty, chosen by chance, carries a context: `trace: {one_in: 20}`

The figure is the median latency of all requests of the measured window, from the intended moment, by that of `none` in
the same round: the geometric mean over the rounds, with Student's interval at 95%. Passed where the interval is not
above the limit (one_in: 1.02; off: 1.01), FAILED where all of it is, undecided else: more rounds narrow it. A round
with a load that was not sent as it was meant to be is left out, and named. Exit code 0 if both have passed, 1 if one
failed, 2 if none failed and one is undecided.
"""

from __future__ import annotations

import argparse
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.trace_input import Input
from inferbench_tasks.stages.traced import instrumented
from inferbench_tasks.stages.traced_load import Sent, send
from inferbench_tasks.tracing.leveled import Overhead, overheads
from inferbench_tasks.tracing.spans import Level

ONE_IN = 20
#: Of each: the level whose instruments are on, whether requests ask to be traced, and what it may cost.
VARIANTS: dict[str, tuple[Level, bool, float]] = {
    "none": ("application", False, 1.0),
    "off": ("model", False, 1.01),
    "one_in": ("model", True, 1.02),
}
#: An interval of fewer rounds says nothing.
LEAST_ROUNDS = 3


def word(cost: Overhead, limit: float) -> str:
    """Whether what it costs is within the limit, by its interval."""
    if cost.low is None or cost.high is None:
        return "undecided"
    return "passed" if cost.high <= limit else "FAILED" if cost.low > limit else "undecided"


def judged(rounds: Sequence[Mapping[str, float]]) -> list[tuple[str, Overhead, float, str]]:
    """(variant, what it costs, limit, word) of each but the first; ``rounds``: variant -> median latency, ms."""
    if len(rounds) < LEAST_ROUNDS:
        return []
    names = list(VARIANTS)
    costs: list[Any] = overheads(rounds, names)  # type: ignore[arg-type]
    return [
        (name, cost, VARIANTS[name][2], word(cost, VARIANTS[name][2]))
        for name, cost in list(zip(names, costs, strict=True))[1:]
    ]


def measured(inp: Input, ctx: Context, name: str, number: int) -> Sent:
    """One load to a server of its own."""
    level, asks, _ = VARIANTS[name]
    with instrumented(inp, ctx, level) as server:
        seed = f"{inp.run_id} {name} {number}" if asks else None
        sent = send(inp, ctx, server.endpoint, seed, ONE_IN)
    if asks:
        told = server.told()
        assert told is not None
        known = {row["trace_id"] for row in told["requests"]}
        if missing := sum(each.trace_id not in known for each in sent.asked):
            raise SystemExit(f"the server tells nothing of {missing} of {len(sent.asked)} traced requests")
    return sent


def job(folder: Path, rate_rps: float, seconds: float) -> Input:
    """A small model and its load."""
    from tests.serving_cases import dense_case, serve_input

    load = {"arrivals": {"kind": "constant", "rate_rps": rate_rps}, "duration_s": seconds, "warmup_s": 1.0}
    run_id = f"one-in-{uuid.uuid4().hex[:8]}"
    given = serve_input(
        dense_case(folder), folder, load=load, run_id=run_id, backend="onnxruntime", threads=1
    )
    fields = given.model_dump()
    fields["job"] |= {"trace": {"one_in": ONE_IN}}
    fields["job"]["convert"]["format"] = "onnx"
    return Input.model_validate({name: fields[name] for name in Input.model_fields})


def main() -> int:
    """Measure, judge, print; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each load, without its warm-up")
    parser.add_argument("--rate", type=float, default=1000.0, help="requests a second")
    parser.add_argument("--rows", type=Path, default=Path("build/one-in.parquet"), help="Raw rows, Parquet.")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="one-in-") as name:
        folder = Path(name)
        inp, ctx = job(folder, options.rate, options.seconds), Context(data_dir=folder / "data")
        for number in range(options.rounds):
            names = list(VARIANTS)
            at = number % len(names)
            for variant in names[at:] + names[:at]:
                sent = measured(inp, ctx, variant, number)
                rows.append(
                    {
                        "round": number,
                        "variant": variant,
                        "median_ms": sent.median_ms,
                        "requests": sent.requests,
                        "traced": len(sent.asked),
                        "doubts": "; ".join(sent.doubts),
                    }
                )
            print(f"round {number + 1} of {options.rounds}", flush=True)
    table = pd.DataFrame(rows)
    options.rows.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(options.rows)
    return report(table)


def report(table: pd.DataFrame) -> int:
    """Print what the rows come to; the exit code."""
    doubtful = table[table["doubts"] != ""]
    lines: list[Any] = doubtful.to_dict("records")
    for row in lines:
        print(f"round {row['round'] + 1} is left out, {row['variant']}: {row['doubts']}")
    kept = table[~table["round"].isin(doubtful["round"])]
    rounds: list[dict[str, float]] = [
        dict(zip(of["variant"], of["median_ms"], strict=True)) for _, of in kept.groupby("round")
    ]
    results = judged(rounds)
    if not results:
        print(f"not judged: {len(rounds)} rounds count, {LEAST_ROUNDS} are needed")
        return 2
    traced = kept[kept["variant"] == "one_in"]
    print(
        f"{len(rounds)} rounds; of {traced['requests'].sum():,} requests {traced['traced'].sum():,} were traced; "
        f"median latency without {kept.loc[kept['variant'] == 'none', 'median_ms'].median():.4g} ms"
    )
    for name, cost, limit, decided in results:
        print(f"{name}: {cost.ratio:.4f} ({cost.low:.4f} to {cost.high:.4f}), limit {limit}: {decided}")
    words = {decided for *_, decided in results}
    return 1 if "FAILED" in words else 2 if "undecided" in words else 0


if __name__ == "__main__":
    raise SystemExit(main())
