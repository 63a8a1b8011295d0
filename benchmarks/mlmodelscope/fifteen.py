"""Whether all fifteen analyses of XSP are there of one model on one stack, from one submission.

    python -m benchmarks.mlmodelscope.fifteen [--data FOLDER] [--show]

Runs `configs/submissions/trace/all-fifteen.yaml` by `inferbench run --inline`, then asks what `inferbench trace show`
does. Passed where each of the fifteen has its table, its figure and its sentence; FAILED names those that miss
something, and what. Not judged where a run is not valid, for batch sizes are of valid runs alone. Exit code 0, 1, 2.
Takes some minutes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.submitted import NoResults, submitted
from inferbench_tasks.analysis.stack.document import Document, analysed
from inferbench_tasks.analysis.stack.stored import subject_of
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB

SUBMISSION = Path("configs/submissions/trace/all-fifteen.yaml")
ALL = range(1, 16)


def judged(document: Document, verdicts: Sequence[str]) -> tuple[int, list[str]]:
    """The exit code and the words; ``verdicts``: of the submission's runs."""
    lacking = {each["number"]: _lacking(each) for each in document["analyses"]}
    there = {number for number, lacks in lacking.items() if lacks is None}
    missing = [
        f"{each['number']} {each['name']}: {lacking[each['number']]}"
        for each in document["analyses"]
        if each["number"] in ALL and each["number"] not in there
    ]
    count = len(there & set(ALL))
    if not missing and count == len(ALL):
        return 0, [f"{count} of {len(ALL)} analyses: passed"]
    if spoilt := [verdict for verdict in verdicts if verdict != "valid"]:
        return 2, [*missing, f"{count} of {len(ALL)} analyses: not judged, a run is {spoilt[0]}"]
    return 1, [*missing, f"{count} of {len(ALL)} analyses: FAILED"]


def _lacking(analysis: Document) -> str | None:
    """What an analysis misses; None of one that has all three."""
    if analysis["missing"] is not None:
        return str(analysis["missing"])
    parts = {
        "an empty table": analysis["rows"],
        "no figure": (analysis["figure"] or {}).get("data"),
        "no sentence": analysis["sentence"],
    }
    return next((words for words, part in parts.items() if not part), None)


def asked(data_dir: Path) -> tuple[Document, list[str]]:
    """The analyses of the submission's last run, and the verdicts of all. Raises NoResults, InferBenchError."""
    submission: dict[str, Any] = yaml.safe_load(SUBMISSION.read_text(encoding="utf-8"))
    ran = submitted(submission, data_dir)
    try:
        with PerfDB.connect(embedded.ensure(data_dir), data_dir) as db:
            document = analysed(subject_of(db, db.get_result(ran[-1]["run_id"])))
    finally:
        embedded.stop(data_dir)
    return document, [str(run["verdict"]) for run in ran]


def main() -> int:
    """Run, ask, judge; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("build/fifteen"))
    parser.add_argument("--show", action="store_true", help="What each of them says, too.")
    options = parser.parse_args()
    try:
        document, verdicts = asked(options.data.resolve())
    except (NoResults, InferBenchError, json.JSONDecodeError) as error:
        print(f"not judged: {error}")
        return 2
    if options.show:
        print(
            "\n".join(f"{each['number']} {each['name']}: {each['sentence']}" for each in document["analyses"])
        )
    code, words = judged(document, verdicts)
    print("\n".join(words))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
