"""Fifty models predicted from their bricks and timed as a whole: gates 1 (``paper50``) and 2 (``distinct50``).

    python -m benchmarks.bricks.fifty [--corpus paper50] [-G 1] [--data FOLDER] [--rows FILE] [--minutes 60]

A submission of kind bricks, run by `inferbench run --inline` in a data directory that stays: an ended run goes on, and
measures only what is missing. Errors are those of the run's own results, as its users see them; each is of predicted
over measured, a model once. Three others calibrate each model; how wide its interval is tell all others, which are
measured for the judgement alone: who has fewer whole models has wider intervals. Below them two speed-ups:

* as the paper counts it: the models' times, each copy of them, over the times of their unique bricks, each once;
* in device time: what timing each copy of each model took, over what the shards took in all (sessions, loading,
  warm-up, both states of the caches, references and rounds that were repeated or given up), without what timing those
  models took that no prediction uses. Judged is the figure with all whole models that tell of any prediction: they
  calibrate it, choose the state of its caches or tell its interval (all models, of results that do not keep which).
  Beside it stands the figure with those alone that calibrate: three calibrate each, and the first of the list are
  calibrated by the fourth, so they are four or more. Of both sides loading, first runs, repeated and given-up rounds
  count; of shards of before that was kept only a model's runs do, and the rest is left out above and counted below: a
  lower bound, which is said.
  Shards of earlier runs that this one went on from count, too, and so do the rounds that ended or disturbed sessions
  left to it; what else these took is left out, and told of the disturbed ones.

``--rows`` keeps a row per model and granularity with machine and versions. Repeats of a model's own time have to agree
within 5% (median over the models), or the session does not count; between 3 and 5% an error gate is 1.5 times that
spread. Exit code 0 where all gates were passed, 1 where one failed, 2 where the session does not count.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from benchmarks.submitted import NoResults, submitted
from inferbench_tasks.brick_jobs.device_time import saved
from inferbench_tasks.brick_jobs.result import BricksResult
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.monitors.environment import git_state
from inferbench_tasks.perfdb.store import PerfDB

LARGEST_SPREAD_RATIO, SPREAD_THAT_COUNTS_RATIO, SPREADS_OF_A_GATE = 0.05, 0.03, 1.5
#: Errors (ratios) and speed-ups of the gates.
PLAIN_RATIO, CALIBRATED_RATIO, WITHIN, HOLDS, MEAN = 0.05, 0.035, 0.90, (0.90, 0.98), (0.95, 1.05)
#: Corpus -> speed-up as the paper counts it, in device time, and the least rank correlation.
SPEEDUPS: dict[str, tuple[float, float | None, float | None]] = {
    "paper50": (6.0, 4.4, None),
    "distinct50": (3.5, None, 0.98),
}
#: So many others calibrate each prediction; their own runs belong to what predictions cost.
CALIBRATING = 3
#: Corpus -> unique layers and all layers that the paper counts in it (section 2).
PAPER_UNIQUE = {"paper50": (1_529, 10_815)}
Gate = tuple[str, str, bool]


def main() -> int:
    """Run the corpus, then judge; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", choices=SPEEDUPS, default="paper50")
    parser.add_argument("-G", dest="granularities", default="1", help="one, or several with commas")
    parser.add_argument("--data", type=Path, default=Path("build/fifty"))
    parser.add_argument("--rows", type=Path, help="Raw rows, Parquet.")
    parser.add_argument(
        "--within", type=float, default=0.0, help="measure.within_ratio: less device time; 0: all runs"
    )
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="end the run after them; it goes on later"
    )
    options = parser.parse_args()
    granularities = [int(text) for text in options.granularities.split(",")]
    try:
        results = _run(options.corpus, granularities, options.data.resolve(), options.minutes, options.within)
    except NoResults as error:
        print(f"the session does not count: {error}")
        return 2
    if not any(_is_cut(one) for one in results):
        print("the models were not all cut: the session does not count; run it again, and it goes on")
        return 2
    with PerfDB.connect(None, options.data.resolve()) as db:
        kept = _Kept(db, results)
        shards = _shards(db, options.corpus, kept.setting)
        rows = _rows(options.corpus, results, kept, taken_s(shards))
    if rows.empty:
        print("no model could be judged: the session does not count; run it again, and it goes on")
        return 2
    path = options.rows or Path(f"build/fifty-{options.corpus}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    rows.to_parquet(path)
    return _judge(options.corpus, results, rows, shards)


def _is_cut(result: dict[str, Any]) -> bool:
    """Whether it is of the cutting, which came to its end: one that was ended early has neither setting nor counts."""
    return bool(result["role"] == "cut" and result["setting"] and result["counts"])


def _run(
    corpus: str, granularities: list[int], data_dir: Path, minutes: float, within: float
) -> list[dict[str, Any]]:
    submission = {
        "kind": "bricks", "name": f"fifty-{corpus}", "models": {"corpus": corpus},
        "bricks": {"granularity": granularities}, "measure": {"reuse": "always", "within_ratio": within},
        "validate": {"models": "all", "calibrate_on": CALIBRATING},
    }  # fmt: skip
    return submitted(submission, data_dir, minutes)


class _Kept:
    """What is stored of the session: whole models' rounds, and what the runs of each network took of the device."""

    def __init__(self, db: PerfDB, results: list[dict[str, Any]]) -> None:
        setting = Setting.model_validate(next(one["setting"] for one in results if _is_cut(one)))
        self.setting, self._store = setting, PerfDBResults(db, setting)
        self._whole_of = {
            cut["digest"]: cut["whole"] for cut in self._store.cuts_of(self._store.whole_names(), {})
        }

    def whole(self, digest: str) -> Result | None:
        """A model's own times, with all runs; None where its session was not quiet."""
        name = self._whole_of.get(digest)
        return self._store.get(name) if name else None


def _shards(db: PerfDB, corpus: str, setting: Setting) -> list[BricksResult]:
    """Every session of its shards at this setting in this data directory, of earlier runs, too."""
    found = db.results_of(BricksResult, {"role": "shard", "submission.name": f"fifty-{corpus}"})
    return [one for one in found if one.setting == setting.model_dump(mode="json")]


def _seconds(result: Result) -> float:
    """What its runs took of the device, repeated rounds left out."""
    return sum(ns for rounds in result.raw_ns.values() for runs in rounds for ns in runs) / 1e9


def taken_s(shards: Sequence[BricksResult]) -> dict[str, float]:
    """Whole model -> what timing it took of the device in all sessions that count."""
    total: dict[str, float] = {}
    for one in shards:
        for name, seconds in one.counts.get("wholes_s", {}).items() if one.verdict.valid else ():
            total[name] = total.get(name, 0.0) + seconds
    return total


def _rows(
    corpus: str, results: list[dict[str, Any]], kept: _Kept, taken: Mapping[str, float]
) -> pd.DataFrame:
    """Of each model and granularity what was measured and predicted, ms. ``runs_s``: what the model's own runs took,
    ``taken_s``: what timing it took in all, None where that was not kept."""
    rows = []
    for result in (one for one in results if one["role"] == "model" and one["verdict"] == "valid"):
        if (whole := kept.whole(result["model"]["digest"])) is None:
            continue
        rounds_ms = [ns / 1e6 for ns in whole.rounds_ns["warm"]]
        for made in result["predictions"]:
            calibrated = made["calibrated"] or dict.fromkeys(("ms", "low_ms", "high_ms"))
            rows.append(
                {
                    "corpus": corpus, "model": result["model"]["name"], "copies": result["model"]["copies"],
                    "granularity": made["granularity"], "layers": made["layers"], "bricks": made["bricks"],
                    "unique": made["unique"], "measured_ms": made["measured"]["ms"], "rounds_ms": rounds_ms,
                    "whole": whole.identity, "runs_s": _seconds(whole), "taken_s": taken.get(whole.identity),
                    "calibrated_by": made["calibrated_by"], "told_by": made.get("told_by"), "sum_ms": _sum(made)["ms"],
                    "sum_low_ms": _sum(made)["low_ms"], "sum_high_ms": _sum(made)["high_ms"],
                    "state": made["state"], "warm_ms": made["warm"]["ms"],
                    "streamed_ms": made["streamed"]["ms"], "calibrated_ms": calibrated["ms"],
                    "calibrated_low_ms": calibrated["low_ms"], "calibrated_high_ms": calibrated["high_ms"],
                    **kept.setting.model_dump(mode="json"), "inferbench": git_state()[0],
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def _sum(made: dict[str, Any]) -> dict[str, Any]:
    """A prediction's sum, with the error that other models tell in its interval where they do."""
    return dict(made.get("uncalibrated") or made["constructed"])


def _judge(
    corpus: str, results: list[dict[str, Any]], rows: pd.DataFrame, shards: Sequence[BricksResult]
) -> int:
    """Print the tables and each gate; the exit code."""
    console = Console(width=150)
    finest = rows[rows["granularity"] == "1"]
    spread = statistics.median(max(times) / min(times) - 1 for times in finest["rounds_ms"])
    _print_models(console, finest)
    cut = next(one for one in results if _is_cut(one))["counts"]
    _print_granularities(console, cut["summary"])
    summary = next(row for row in cut["summary"] if row["granularity"] == "1")
    lost = [one for one in results if one["role"] == "model" and one["verdict"] != "valid"]
    for one in lost:
        console.print(f"not judged: {one['model'].get('name', one['run_id'])}: {one['verdict']}")
    console.print(
        f"{summary['judged']} of {summary['architectures']} architectures judged; {summary['bricks']} bricks, "
        f"{summary['unique']} unique ({_unique(corpus, summary)}); repeats of a model's own time differ by "
        f"{spread:.1%} (median)"
    )
    if spread > LARGEST_SPREAD_RATIO:
        console.print("the session does NOT count: its repeats differ by more than 5%; measure it again")
        return 2
    if ended := [one for one in results if one["verdict"].startswith("cancelled")]:
        console.print(
            f"the session does NOT count yet: {len(ended)} of its runs were ended early; run it again, it goes on"
        )
        return 2
    gates = [
        *_errors(summary, finest, spread),
        *_savings(corpus, shards, summary, finest),
        *_ranks(corpus, finest),
    ]
    gates.append(("all models judged", f"{len(lost)} are not", not lost))
    for name, found, held in gates:
        console.print(f"{name}: {found}: {'passed' if held else 'FAILED'}")
    return 0 if all(held for _, _, held in gates) else 1


def _unique(corpus: str, summary: dict[str, Any]) -> str:
    """The share of unique bricks, beside the paper's where it counted this corpus: its layers are MXNet's."""
    share = f"{summary['unique_ratio']:.1%}"
    if corpus not in PAPER_UNIQUE:
        return share
    unique, layers = PAPER_UNIQUE[corpus]
    return f"{share}; the paper, of MXNet's layers: {unique:,} of {layers:,}, {unique / layers:.1%}"


def _errors(summary: dict[str, Any], rows: pd.DataFrame, spread: float) -> list[Gate]:
    least = SPREADS_OF_A_GATE * spread if spread > SPREAD_THAT_COUNTS_RATIO else 0.0
    plain, calibrated = summary["plain"], summary["calibrated"]
    gates = [_mean(name, errors) for name, errors in (("sums", plain), ("calibrated", calibrated)) if errors]
    for name, errors, bound in (("sums", plain, PLAIN_RATIO), ("calibrated", calibrated, CALIBRATED_RATIO)):
        if errors is None:
            gates.append((f"{name}: mean absolute error", "none was made", False))
            continue
        bound = max(bound, least)
        error, within = errors["mean_absolute_error_ratio"], errors["within_ratio"]
        gates.append((f"{name}: mean absolute error <= {bound:.1%}", f"{error:.2%}", error <= bound))
        gates.append((f"{name}: within 10% >= {WITHIN:.0%}", f"{within:.1%}", within >= WITHIN))
        held = errors["interval_ratio"]
        low, high = HOLDS
        gates.append((f"{name}: intervals hold {low:.0%} to {high:.0%}", f"{held:.1%}", low <= held <= high))
    return gates


def _mean(name: str, errors: dict[str, Any]) -> Gate:
    mean, (low, high) = errors["geometric_mean"], MEAN
    return f"{name}: geometric mean {low} to {high}", f"{mean:.3f}", low <= mean <= high


def _savings(
    corpus: str, shards: Sequence[BricksResult], summary: dict[str, Any], rows: pd.DataFrame
) -> list[Gate]:
    """The two speed-ups; see the module. ``rows``: of one granularity, in the list's order."""
    counted, timed, _ = SPEEDUPS[corpus]
    ratio, name = summary["speedup_ratio"], f"speed-up as the paper counts it >= {counted}"
    if ratio is None:
        return [(name, "not known: some bricks have no time", False)]
    gates = [(name, f"{ratio:.2f}", ratio >= counted)]
    kept = [one.counts for one in shards if one.verdict.valid]
    lost_s = sum(one.counts.get("seconds", 0.0) for one in shards if not one.verdict.valid)
    shards_s = sum(counts.get("seconds", 0.0) + counts.get("earlier_s", 0.0) for counts in kept)
    if sum(counts.get("stored", 0) for counts in kept) < summary["unique"]:
        return [
            *gates,
            ("speed-up in device time", "not known: some times are of another submission", timed is None),
        ]
    complete = bool(rows["taken_s"].notna().all())
    seconds = map(float, rows["taken_s" if complete else "runs_s"])
    wholes_s = dict(zip(rows["whole"], seconds, strict=True))
    used, calibrating = _paid(rows)
    models = list(zip(rows["whole"], rows["copies"], strict=True))
    found = saved(models, wholes_s, shards_s, used, calibrating)
    device_ratio = found["used_speedup_ratio"]
    what = "models" if complete else "models' runs, without loading and first runs, which the shards have"
    text = (
        f"{device_ratio:.2f} ({found['models_s']:.0f} s of {what}, {found['used_bricks_s']:.0f} s of shards with the "
        f"{found['used']} whole models that predictions use; with the {found['calibrating']} alone that calibrate "
        f"{found['speedup_ratio']:.2f}, of {found['bricks_s']:.0f} s; disturbed sessions took {lost_s:.0f} s more)"
    )
    bound = "" if timed is None else f" >= {timed}"
    return [*gates, (f"speed-up in device time{bound}", text, timed is None or device_ratio >= timed)]


def _paid(rows: pd.DataFrame) -> tuple[set[str], set[str]]:
    """What the whole models are timed as that predictions use, and which of these calibrate."""
    if rows["told_by"].isna().any():  # of before it was kept: by their names, and all are taken to be used
        names = {name for names in rows["calibrated_by"] if names is not None for name in names}
        return set(rows["whole"]), set(rows["whole"][rows["model"].isin(names)])
    pairs = list(zip(rows["told_by"], rows["calibrated_by"], strict=True))
    used = {whole for told_by, _ in pairs for whole in told_by}
    return used, {whole for told_by, names in pairs if names is not None for whole in told_by[: len(names)]}


def _ranks(corpus: str, rows: pd.DataFrame) -> list[Gate]:
    if (least := SPEEDUPS[corpus][2]) is None:
        return []
    rank = float(spearmanr(rows["sum_ms"], rows["measured_ms"]).statistic)
    return [(f"rank correlation >= {least}", f"{rank:.4f}", rank >= least)]


def _print_models(console: Console, rows: pd.DataFrame) -> None:
    table = Table(
        "model",
        "copies",
        "layers",
        "unique",
        "measured ms",
        "rounds",
        "warm",
        "streamed",
        "sum",
        "calibrated",
    )
    for row in rows.to_dict("records"):
        times = row["rounds_ms"]
        calibrated = row["calibrated_ms"]
        ratios = [row["warm_ms"], row["streamed_ms"], row["sum_ms"], *([calibrated] if calibrated else [])]
        table.add_row(
            row["model"], str(row["copies"]), str(row["layers"]), str(row["unique"]), f"{row['measured_ms']:.3f}",
            f"{max(times) / min(times) - 1:.1%}", *(f"{ms / row['measured_ms']:.3f}" for ms in ratios),
        )  # fmt: skip
    console.print(table)


def _print_granularities(console: Console, summary: list[dict[str, Any]]) -> None:
    table = Table(
        "G", "unique", "speed-up", "sums: mean", "error", "within 10%", "calibrated: mean", "error", "holds"
    )
    for row in summary:
        plain, calibrated = row["plain"], row["calibrated"]
        cells = ["–"] * 6
        if plain:
            cells[:3] = [
                f"{plain['geometric_mean']:.3f}",
                _share(plain, "mean_absolute_error"),
                _share(plain, "within"),
            ]
        if calibrated:
            cells[3:] = [
                f"{calibrated['geometric_mean']:.3f}", _share(calibrated, "mean_absolute_error"),
                _share(calibrated, "interval"),
            ]  # fmt: skip
        speedup = f"{row['speedup_ratio']:.2f}" if row["speedup_ratio"] else "–"
        table.add_row(row["granularity"], f"{row['unique']} of {row['bricks']}", speedup, *cells)
    console.print(table)


def _share(errors: dict[str, Any], name: str) -> str:
    return f"{errors[f'{name}_ratio']:.1%}"


if __name__ == "__main__":
    sys.exit(main())
