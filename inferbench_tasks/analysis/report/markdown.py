"""The report as Markdown, for a pull request: the advice, the table, what went wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inferbench_tasks.analysis.report import page
from inferbench_tasks.analysis.report.advise import advise
from inferbench_tasks.analysis.report.columns import columns_of
from inferbench_tasks.analysis.report.compose import notes_of, row_of, subtitle
from inferbench_tasks.analysis.report.runs import RunView, load_runs
from inferbench_tasks.perfdb.store import PerfDB

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!&@])")


def make_markdown(
    db: PerfDB, run_ids: Sequence[str], submission: dict[str, Any], path: Path
) -> list[RunView]:
    """Write the report of these runs as Markdown, like ``compose.make_report``; the runs that it shows."""
    views = load_runs(db, run_ids)
    page.write(path, markdown(views, submission, unstarted=len(run_ids) - len(views)))
    return views


def markdown(views: list[RunView], submission: dict[str, Any], unstarted: int = 0) -> str:
    """GitHub's Markdown; a user's text can't become markup, a link or a mention."""
    advice = advise(views)
    columns = columns_of(views)
    lines = [f"# {escape(submission.get('name', 'report'))}", "", escape(subtitle(views, submission)), ""]
    lines += [f"> {escape(sentence)}" for sentence in advice.sentences]
    heads = ["run", *(column.title for column in columns), "verdict"]
    lines += ["", _cells(heads), _cells(["---", *("---:" for _ in columns), "---"])]
    for view in views:
        row = row_of(view, columns, advice)
        star = " ★" if row["best"] else ""
        lines.append(_cells([escape(row["label"]) + star, *row["cells"], escape(row["verdict"])]))
    notes = notes_of(views, unstarted)
    if notes:
        lines += ["", "Notes:", "", *(f"- {escape(note)}" for note in notes)]
    results = [view.result for view in views if view.result]
    if results:
        sha = results[0].provenance.git_sha or "unknown"
        lines += [
            "",
            f"InferBench {sha[:12]}, runs {escape(results[0].run_id)} to {escape(results[-1].run_id)}.",
        ]
    return "\n".join(lines) + "\n"


def escape(value: object) -> str:
    """Text that Markdown shows literally, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(str(value).split()))


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
