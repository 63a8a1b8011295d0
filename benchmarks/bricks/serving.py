"""Predictions under load against real runs (gate 5).

    python -m benchmarks.bricks.serving [--models resnet50 mobilenet_v2] [--rows FILE] [--minutes 60]

Four models, batching off and on: the capacity is predicted (`bricks predict FILE.yaml`) under a p99 of five times the
latency of a request by itself, and looked for by `arrivals: {kind: max_rate}`; at 30, 50 and 70% of the predicted
capacity a load is predicted, and run until it is valid, at most ``TRIES`` times. Everything is predicted before it is
run, and what was disturbed is no row. Rows (Parquet, with machine and versions) are kept: an ended run goes on where
it was. Passed where every p50 is within 10%, every p99 within 20% and every capacity within 10% of the measured one.

A prediction that is refused ("may be unstable", a capacity too close to saturation to be told) fails where a valid run
has the figure. Without a predicted capacity its loads, shares of it, can't be set: they stay without rows.
Exit code 1 where one fails; 2 where none does and a row of any model, batching or load is missing, asked for or not.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.bricks import rows as raw_rows

MODELS = ("resnet50", "mobilenet_v2", "efficientnet-lite0", "vit-tiny")
BATCHINGS: dict[str, dict[str, Any] | None] = {"off": None, "on": {"max_batch_size": 4, "max_delay_ms": 5}}
LOADS = (0.3, 0.5, 0.7)
GATES = {"p50_ms": 0.10, "p99_ms": 0.20, "capacity_rps": 0.10}
#: The objective's p99 over the time of a request by itself.
SLO_TIMES = 5.0
#: A p99 of fewer requests is one of a handful.
REQUESTS, TRIES = 1000, 3
_COMMAND = [sys.executable, "-m", "inferbench_tasks.cli.main"]
_LIBRARIES = ("onnxruntime", "numpy", "fastapi", "uvicorn")


class NoRow(Exception):
    """Why: the machine was not quiet, or a command failed."""


def main() -> int:
    """Make the rows that are missing, then the table; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=MODELS)
    raw_rows.options(parser, "serving", "row")
    options = parser.parse_args()
    where = raw_rows.where(*_LIBRARIES)
    end = raw_rows.ends_at(options)
    wanted = [(model, batching) for model in options.models for batching in BATCHINGS]
    missing: list[str] = []
    for model, batching in wanted:
        done = {(row["load"], row["figure"]) for row in _rows(options.rows, where, model, batching)}
        if {*_keys()} <= done:
            continue
        if time.monotonic() > end:
            missing.append(f"{model}, batching {batching}: not begun")
            continue
        try:
            for row in _measured(model, batching, done):
                made = {"model": model, "batching": batching, **where, **row}
                raw_rows.keep(options.rows, [made])
                print(json.dumps(made), flush=True)
        except NoRow as error:
            missing.append(f"{model}, batching {batching}: {error}")
    found = [row for one in wanted for row in _rows(options.rows, where, *one)]
    return _report(found, missing)


def _keys() -> Iterator[tuple[float | None, str]]:
    """Load and figure of the rows of one model and batching."""
    yield None, "capacity_rps"
    for load in LOADS:
        yield from ((load, name) for name in ("p50_ms", "p99_ms"))


def _measured(model: str, batching: str, done: set[tuple[float | None, str]]) -> Iterator[dict[str, Any]]:
    alone = _predicted(_submission(model, batching, {"kind": "single_stream"}, 10.0))
    slo = {"p99_ms": round(SLO_TIMES * alone["p50_ms"], 3)}
    told = _predicted(_submission(model, batching, _poisson(1.0), 10.0, slo))
    capacity = told["capacity_rps"]
    for load in LOADS if capacity else ():
        if {(load, "p50_ms"), (load, "p99_ms")} <= done:
            continue
        rate = capacity * load
        submission = _submission(model, batching, _poisson(rate), max(10.0, REQUESTS / rate))
        figures = _predicted(submission)  # none where it is refused
        seen = _run(submission)
        for name in ("p50_ms", "p99_ms"):
            yield _row(load, name, figures[name], figures[f"{name}_interval"], seen[name], seen)
    if (None, "capacity_rps") not in done:
        start = capacity or told["saturation_rps"] / 2
        arrivals = {"kind": "max_rate", "start_rate_rps": start, "limit_s": 1800}
        seen = _run(_submission(model, batching, arrivals, max(10.0, REQUESTS / start), slo))
        yield _row(None, "capacity_rps", capacity, told["capacity_interval_rps"], seen["max_rate_rps"], seen)
    if not capacity:
        raise NoRow(f"no loads, they are shares of a capacity under {slo} that is not predicted")


def _row(
    load: float | None, name: str, predicted: float | None, interval: Any, measured: float | None, seen: Any
) -> dict[str, Any]:
    if measured is None:
        raise NoRow(f"the run {seen['run_id']} has no {name}")
    return {
        "load": load, "figure": name, "predicted": predicted, "interval": interval, "measured": measured,
        "run_id": seen["run_id"],
    }  # fmt: skip


def _poisson(rate_rps: float) -> dict[str, Any]:
    return {"kind": "poisson", "rate_rps": rate_rps}


def _submission(
    model: str,
    batching: str,
    arrivals: dict[str, Any],
    duration_s: float,
    slo: dict[str, float] | None = None,
) -> dict[str, Any]:
    return {
        "name": f"serving-{model.replace('_', '-')}",
        "model": {"kind": "zoo", "name": model},
        "serve": {"backend": "onnxruntime", "batching": BATCHINGS[batching]},
        "load": {"arrivals": arrivals, "duration_s": duration_s},
        **({"slo": slo} if slo else {}),
    }


def _asked(command: list[str], submission: dict[str, Any]) -> tuple[list[Any], str]:
    import yaml

    with tempfile.TemporaryDirectory(prefix="inferbench-serving-") as folder:
        path = Path(folder, "serving.yaml")
        path.write_text(yaml.safe_dump(submission))
        done = subprocess.run(
            [*_COMMAND, *command, str(path), "-o", "json"], capture_output=True, text=True, check=False
        )
    try:
        return json.loads(done.stdout), done.stderr
    except ValueError:
        raise NoRow(done.stderr.strip()[-500:] or f"exit code {done.returncode}") from None


def _predicted(submission: dict[str, Any]) -> dict[str, Any]:
    """Raises NoRow where a part of it was measured beside other work."""
    why = ""
    for _ in range(TRIES):
        [row], said = _asked(["bricks", "predict"], submission)
        if row.get("saturation_rps") is None:
            raise NoRow(row["state"])
        if not row["disturbed"]:
            return dict(row)
        why = said
    raise NoRow(f"what it is predicted from was disturbed: {why.strip()[-300:]}")


def _run(submission: dict[str, Any]) -> dict[str, Any]:
    """The first valid one; raises NoRow after ``TRIES``."""
    verdict = ""
    for _ in range(TRIES):
        [result], _ = _asked(["run", "--inline"], submission)
        verdict = str(result["verdict"])
        if verdict == "valid":
            return dict(result)
    raise NoRow(f"no run was valid: {verdict}")


def _rows(path: Path, where: dict[str, Any], model: str, batching: str) -> list[dict[str, Any]]:
    """The last row of each load and figure, of this machine and these versions."""
    mine = raw_rows.kept(path, {"model": model, "batching": batching, **where})
    return list({(row["load"], row["figure"]): row for row in mine}.values())


def _report(rows: list[dict[str, Any]], missing: list[str]) -> int:
    print(
        f"\n{'model':<22}{'batching':<10}{'load':<8}{'figure':<14}{'predicted':>11}{'measured':>11}{'off':>8}"
    )
    worst: dict[str, float] = {}
    for row in rows:
        refused = row["predicted"] is None
        off = math.inf if refused else row["predicted"] / row["measured"] - 1
        worst[row["figure"]] = max(worst.get(row["figure"], 0.0), abs(off))
        load = "" if row["load"] is None else f"{row['load']:.0%}"
        print(
            f"{row['model']:<22}{row['batching']:<10}{load:<8}{row['figure']:<14}"
            + ("refused".rjust(11) if refused else f"{row['predicted']:>11.4g}")
            + f"{row['measured']:>11.4g}"
            + ("" if refused else f"{off:>+8.1%}")
        )
    for text in missing:
        print(f"no row: {text}")
    there = {(row["model"], row["batching"], row["load"], row["figure"]) for row in rows}
    wanted = {(model, batching, *key) for model in MODELS for batching in BATCHINGS for key in _keys()}
    failed = False
    for name, most in GATES.items():
        off = worst.get(name, 0.0)
        lacks = sum(key[-1] == name for key in wanted - there)
        word = "FAILED" if off > most else f"not judged, {lacks} rows are missing" if lacks else "passed"
        far = "a prediction was refused" if off == math.inf else f"at most {off:.1%} off"
        failed |= off > most
        print(f"{name} within {most:.0%}: {word}" + (f"; {far}" if name in worst else ""))
    if failed:
        return 1
    return 2 if missing or wanted - there else 0


if __name__ == "__main__":
    sys.exit(main())
