"""The measured accuracy of at least 20 entries of model x framework, those in fp16 and int8 with them.

    python -m benchmarks.mlmodelscope.accuracies [SUBMISSION...] [--data FOLDER] [--rows FILE] [--again]

The jobs of the shipped submissions below, each without its load: `inferbench run --inline` has every sample of its
evaluation asked one by one, twice. Models are made where no cache has them (those of Fashion-MNIST are trained for
minutes each). A table of model, framework, precision and server with the share that is right and its 95% interval; of
models that read words, which are exactly right. It goes on where it was: what stands in the rows is not measured
again without `--again`.

Passed where at least 20 entries (model, framework, precision) have an accuracy from a run that counts. FAILED where all
was measured and fewer have one, not judged where something is missing and fewer have one. Exit code 0, 1, 2.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.submitted import NoResults, submitted
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.analysis.evaluations.listed import evaluation_of
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.submission.reader import read_submission_data, read_submission_text
from inferbench_tasks.submission.sweep import expand

FOLDER = Path(__file__).resolve().parents[2] / "configs" / "submissions" / "evaluate"
SUBMISSIONS = (
    "digits-accuracy",
    "canonical-accuracy",
    "fashion-accuracy",
    "words-accuracy",
    "magika-accuracy",
)
LEAST = 20
#: What is an accuracy, the first that an evaluation has.
MEASURES = ("top1_ratio", "exact_match_ratio")
#: Whose figures count: a busy machine changes times, not answers.
COUNT = ("valid", "disturbed")
ENTRY = ["model", "framework", "precision"]


def points(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A shipped submission without its load and sweep, and the values of each of its jobs by dotted path."""
    path = FOLDER / f"{name}.yaml"
    submission = read_submission_text(path.read_text(encoding="utf-8"), path.name, INSTALLED)
    plain = submission.model_dump(mode="json", exclude={"sweep", "load"}, exclude_defaults=True)
    return plain, [job.point for job in expand(submission)]


def key_of(name: str, point: Mapping[str, Any]) -> str:
    """What a job's rows are found by."""
    return f"{name} {json.dumps(point, sort_keys=True)}"


def measured(
    name: str, plain: Mapping[str, Any], wanted: list[dict[str, Any]], data_dir: Path
) -> list[dict[str, Any]]:
    """A row for each of these jobs that came to a result. Raises NoResults."""
    swept = {path: [point[path] for point in wanted] for path in wanted[0]}
    submission = {**plain, "sweep": {"zip": swept}}
    points_of = {job.job_id: job.point for job in expand(read_submission_data(submission, name, INSTALLED))}
    ran = submitted(submission, data_dir)
    try:
        with PerfDB.connect(embedded.ensure(data_dir), data_dir) as db:
            results = [r for row in ran for r in db.find_results({"run_id": row["run_id"]})]
    finally:
        embedded.stop(data_dir)
    return [row_of(result) | {"key": key_of(name, points_of[result.job_id])} for result in results]


def row_of(result: ResultDocument) -> dict[str, Any]:
    """What was measured in that run."""
    under_load = evaluation_of(result)["under_load"] if result.verdict.kind in COUNT else {}
    values = under_load.get("measures") or {}
    measure = next((name for name in MEASURES if name in values), None)
    low, high = (values[measure]["ci95"] or (None, None)) if measure else (None, None)
    return {
        "model": result.model.name,
        "framework": result.model.framework,
        "precision": result.model.precision,
        "server": result.backend.kind,
        "measure": measure,
        "value": values[measure]["value"] if measure else None,
        "low": low,
        "high": high,
        "samples": evaluation_of(result)["samples"] if measure else None,
        "verdict": str(result.verdict),
    }


def judged(rows: pd.DataFrame, missing: int) -> tuple[int, str]:
    """The exit code and the words; ``missing``: jobs without a row."""
    entries = rows.dropna(subset=["value"])[ENTRY].drop_duplicates() if len(rows) else rows
    pairs = len(entries[ENTRY[:2]].drop_duplicates()) if len(entries) else 0
    passed = len(entries) >= LEAST
    verdict = "passed" if passed else "not judged" if missing else "FAILED"
    words = (
        f"{len(entries)} entries have a measured accuracy ({pairs} models by framework, in up to three precisions; at "
        f"least {LEAST}){f'; {missing} were not measured' if missing else ''}: {verdict}"
    )
    return (0 if passed else 2 if missing else 1), words


def shown(row: Mapping[str, Any]) -> str:
    """A line of the table."""
    if pd.isna(row["value"]):
        figure = row["verdict"]
    else:
        figure = f"{row['value']:.2%} ({row['low']:.2%} to {row['high']:.2%}) {row['measure']} of {row['samples']:.0f}"
    return f"{row['model']:32} {row['framework']:12} {row['precision']:5} {row['server']:12} {figure}"


def main() -> int:
    """Measure what is missing, print all, judge; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("submissions", nargs="*", metavar="SUBMISSION", help=f"of: {', '.join(SUBMISSIONS)}")
    parser.add_argument("--data", type=Path, default=Path("build/accuracies"))
    parser.add_argument(
        "--rows", type=Path, default=Path("build/accuracies.parquet"), help="Raw rows, Parquet."
    )
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.submissions) - set(SUBMISSIONS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(SUBMISSIONS)}")
    rows = pd.read_parquet(options.rows) if options.rows.exists() else pd.DataFrame()
    options.rows.parent.mkdir(parents=True, exist_ok=True)
    if len(rows):  # of what is not shipped any more nothing counts
        rows = rows[rows["key"].isin({key_of(name, job) for name in SUBMISSIONS for job in points(name)[1]})]
    missing = 0
    for name in options.submissions or SUBMISSIONS:
        plain, jobs = points(name)
        for group in of_models(jobs):
            keys = [key_of(name, job) for job in group]
            known = set(rows["key"]) & set(keys) if len(rows) and not options.again else set()
            wanted = [job for job, key in zip(group, keys, strict=True) if key not in known]
            if not wanted:
                continue
            try:
                new = measured(name, plain, wanted, options.data.resolve())
            except (NoResults, InferBenchError, json.JSONDecodeError) as error:
                print(f"{name}: not measured: {error}", flush=True)
                missing += len(wanted)
                continue
            missing += len(wanted) - len(new)
            if len(rows):
                rows = rows[~rows["key"].isin([row["key"] for row in new])]
            rows = pd.concat([rows, pd.DataFrame(new)], ignore_index=True)
            rows.to_parquet(options.rows)
            print("\n".join(shown(row) for row in new), flush=True)
    return report(rows, missing)


def of_models(jobs: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Jobs that follow each other with the same model, together: it is made once."""
    return [list(group) for _, group in groupby(jobs, key=lambda job: json.dumps(job.get("model")))]


def report(rows: pd.DataFrame, missing: int) -> int:
    """Print all that is known; the exit code."""
    lines: list[Any] = rows.to_dict("records")
    print("\n".join(["", *(shown(row) for row in lines)]))
    code, words = judged(rows, missing)
    print(words)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
