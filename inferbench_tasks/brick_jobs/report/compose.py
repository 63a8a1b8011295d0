"""The report of an invocation: predicted against measured, where the time goes, what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.report import page
from inferbench_tasks.analysis.report.sections import Section
from inferbench_tasks.brick_jobs.report import charts, tables
from inferbench_tasks.brick_jobs.result import BricksResult
from inferbench_tasks.perfdb.store import PerfDB

REPORT_FILE = "report.html"


def make_report(db: PerfDB, run_ids: Sequence[str], submission: dict[str, Any], path: Path) -> None:
    """Draw the report of these runs into a file."""
    page.write(path, html(load(db, run_ids), submission))


def load(db: PerfDB, run_ids: Sequence[str]) -> list[BricksResult]:
    """The last result of each run, in the order of the runs."""
    found = db.results_of(BricksResult, {"run_id": {"$in": list(run_ids)}}, (("attempt", 1),))
    latest = {result.run_id: result for result in found}
    return [latest[run_id] for run_id in run_ids if run_id in latest]


def html(results: Sequence[BricksResult], submission: dict[str, Any]) -> str:
    """The page as HTML."""
    drawn: dict[str, Any] = {}
    parts = []
    for section in sections(results):
        keys = [f"c{len(drawn) + number}" for number in range(len(section.charts))]
        drawn.update(zip(keys, section.charts, strict=True))
        parts.append({"title": section.title, "charts": keys, "tables": section.tables})
    return page.render(
        "bricks.html",
        title=str(submission.get("name") or "bricks"),
        subtitle=_subtitle(results),
        description=submission.get("description") or "",
        advice=tables.words(results),
        troubled=[result for result in results if not result.valid],
        sections=parts,
        submission=page.as_yaml(submission),
        charts=drawn,
    )


def sections(results: Sequence[BricksResult]) -> list[Section]:
    """What there is to show of these runs."""
    blocks: tuple[tuple[str, list[Chart | None], list[dict[str, Any]]], ...] = (
        ("Predicted and measured", [charts.against(results), charts.ratios(results)], tables.models(results)),
        ("By granularity", [charts.by_granularity(results)], tables.granularities(results)),
        ("Where the time goes", [charts.where(results)], tables.layers(results)),
        ("What was measured", [], tables.shards(results)),
    )
    drawn = [
        Section(title, [one for one in pictures if one is not None], tables=of)
        for title, pictures, of in blocks
    ]
    return [section for section in drawn if section.charts or section.tables]


def _all(settings: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    return list(dict.fromkeys(str(setting[name]) for setting in settings if setting.get(name)))


def _subtitle(results: Sequence[BricksResult]) -> str:
    models = [result for result in results if result.role == "model"]
    settings = [result.setting for result in results if result.setting]
    where = ", ".join(
        " and ".join(values)
        for name in ("processor", "instruction_set", "runtime")
        if (values := _all(settings, name))
    )
    threads = f", {' and '.join(_all(settings, 'threads'))} thread(s)" if settings else ""
    return f"{len(models)} models; {where}{threads}" if where else f"{len(models)} models"
