"""Models of other makers on every runtime that can run them: the gate is that each such run is valid.

    python -m benchmarks.models [MODEL...] [--seconds 5] [--data build/models] [--rows FILE] [--mlserver]

Each shipped submission of `configs/submissions/models` (its model, requests and rate) is validated once for each
runtime. Where a runtime is refused, the reason stands in the table; the others are run by `inferbench run --inline`,
each with a load of so many seconds. What only making or converting the model tells (`CANNOT`) is named there with its
words: any other end of such a run, or another reason, is a failure. Before it each server's answer is compared with the
source model's: how far it is off, of the largest value, is in the table. `--mlserver` adds MLServer, whose environment
takes minutes to make.
Exit code 0 where all that ran is valid, 1 where something failed or is invalid, 2 where the machine disturbed a run.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.submitted import NoResults, served_format, submitted
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.submission.reader import refused

FOLDER = Path(__file__).resolve().parents[2] / "configs" / "submissions" / "models"
#: Runtime -> backend and protocol.
RUNTIMES = {
    "ONNX Runtime": ("onnxruntime", "http"),
    "OpenVINO": ("openvino", "http"),
    "Triton": ("triton", "http"),
    "TorchScript": ("torchscript", "http"),
    "MLServer": ("mlserver", "grpc"),
}
#: Submissions of models that are ours, or that have no weights.
OURS = {
    "bert-base",
    "cyclegan-generator",
    "detector",
    "digits-precision",
    "lstm",
    "mobilenet-v2",
    "resnet50-five-ways",
}

#: (model, runtime) -> words of the reason why that runtime can't run it, which only making or converting it tells.
CANNOT = {
    # A kernel that OpenVINO does not have.
    (
        "breast-cancer-trees",
        "OpenVINO",
    ): "No conversion rule found for operations: ai.onnx.ml.TreeEnsembleClassifier",
    # Photographs without text: the source's answers are all zeros, so nothing is their largest value.
    ("ppocr-detection", "OpenVINO"): "of its largest value",
    # It keeps its state from call to call.
    ("silero-vad", "Triton"): "takes exactly 1 sample(s) in each call",
}


def main() -> int:
    """Run them, print the table, judge; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = sorted({path.stem for path in FOLDER.glob("*.yaml")} - OURS)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of: {', '.join(names)}; all by default")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    parser.add_argument("--data", type=Path, default=Path("build/models"))
    parser.add_argument("--rows", type=Path, default=Path("build/models.parquet"), help="Raw rows, Parquet.")
    parser.add_argument("--mlserver", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.models) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    runtimes = [name for name in RUNTIMES if name != "MLServer" or options.mlserver]
    rows = [
        row
        for name in options.models or names
        for row in _of_model(name, runtimes, options.seconds, options.data)
    ]
    table = pd.DataFrame(rows)
    options.rows.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(options.rows)
    return _judge(table, runtimes)


def _of_model(name: str, runtimes: list[str], seconds: float, data_dir: Path) -> list[dict[str, Any]]:
    """A row for each runtime."""
    given = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    given.pop("sweep", None)
    given["load"] |= {"duration_s": seconds, "warmup_s": 1}
    rows, taken = [], []
    for runtime in runtimes:
        row = {"model": name, "runtime": runtime, "verdict": "", "difference_ratio": None, "p50_ms": None}
        rows.append(row)
        if refusal := refused(_on(given, runtime), INSTALLED):
            row["verdict"] = f"refused: {refusal}"
        else:
            taken.append(row)
    for row in taken:
        expected = CANNOT.get((name, row["runtime"]))
        try:
            (ran,) = submitted(_on(given, row["runtime"]), data_dir.resolve())
        except NoResults as error:
            row["verdict"] = f"failed: {error}"
            continue
        row |= {
            "verdict": _verdict(ran["verdict"], expected),
            "p50_ms": ran["p50_ms"],
            **_stored(ran["run_id"], data_dir.resolve()),
        }
    return rows


def _verdict(verdict: str, expected: str | None) -> str:
    """A failure that is known, at a stage before anything is served, is a refusal; that it is gone is to be told."""
    if expected is None:
        return verdict
    early = verdict.startswith(("failed: generate, ", "failed: convert, "))
    if early and expected in verdict:
        return f"refused: {verdict.partition(': ')[2]}"
    return f"failed: it is expected to be refused ({expected}), and is {verdict}"


def _stored(run_id: str, data_dir: Path) -> dict[str, Any]:
    """What the table of runs does not have of a run; nothing of one that left no result."""
    try:
        with PerfDB.connect(embedded.ensure(data_dir), data_dir) as db:
            found = db.find_results({"run_id": run_id})
            result = max(found, key=lambda each: each.attempt, default=None)
    finally:
        embedded.stop(data_dir)
    if result is None:
        return {}
    return {
        "difference_ratio": result.extensions.get("differences", {}).get("serve_ratio"),
        "inferbench": result.provenance.git_sha,
    }


def _on(given: dict[str, Any], runtime: str) -> dict[str, Any]:
    """The submission for a runtime."""
    backend, protocol = RUNTIMES[runtime]
    return given | {
        "name": f"{given['name']}-{backend}",
        "convert": given.get("convert", {}) | {"format": served_format(backend)},
        "serve": given["serve"] | {"backend": backend},
        "load": given["load"] | {"protocol": protocol},
    }


def _judge(rows: pd.DataFrame, runtimes: list[str]) -> int:
    table = Table("model", *runtimes)
    for model, of in rows.groupby("model"):
        cells = of.set_index("runtime")
        table.add_row(str(model), *(_cell(cells.loc[runtime]) for runtime in runtimes))
    console = Console(width=160)
    console.print(table)
    kind = rows["verdict"].str.partition(":")[0]
    for verdict in rows.loc[~kind.isin(["valid"])].itertuples():
        console.print(f"{verdict.model} on {verdict.runtime}: {verdict.verdict}", soft_wrap=True)
    bad, disturbed = rows[~kind.isin(["valid", "refused", "disturbed"])], rows[kind == "disturbed"]
    console.print(
        f"{(kind == 'valid').sum()} of {(kind != 'refused').sum()} runs valid, {len(disturbed)} disturbed, "
        f"{len(bad)} failed or invalid: {'FAILED' if len(bad) else 'not judged' if len(disturbed) else 'passed'}"
    )
    return 1 if len(bad) else 2 if len(disturbed) else 0


def _cell(row: Any) -> str:
    kind = row["verdict"].partition(":")[0]
    if kind != "valid":
        return str(kind)
    difference = "" if pd.isna(row["difference_ratio"]) else f", off by {row['difference_ratio']:.1e}"
    return f"valid, p50 {row['p50_ms']:.3g} ms{difference}"


if __name__ == "__main__":
    raise SystemExit(main())
