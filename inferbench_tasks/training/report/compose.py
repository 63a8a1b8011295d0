"""The report of an invocation: one HTML file over all its runs, whatever became of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.report import page
from inferbench_tasks.analysis.report.provenance import tables_of
from inferbench_tasks.analysis.report.sections import Section
from inferbench_tasks.contracts.verdict import reasons_of
from inferbench_tasks.dotted import flatten
from inferbench_tasks.errors import PerfDBError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training.diagnosis.measured import Diagnosis, diagnose
from inferbench_tasks.training.diagnosis.raw import ranks_of
from inferbench_tasks.training.report import charts, tables
from inferbench_tasks.training.report.stalls import stalls
from inferbench_tasks.training.report.views import TrainingView, load_views
from inferbench_tasks.training.report.words import sentences

log = logging.getLogger(__name__)

REPORT_FILE = "report.html"
#: So many runs have pictures of their own; of the others the tables tell.
MOST_RUNS = 6


def make_report(
    db: PerfDB, run_ids: Sequence[str], submission: dict[str, Any], path: Path
) -> list[TrainingView]:
    """Draw the report of these runs into a file; the runs that it shows."""
    views = load_views(db, run_ids)
    page.write(path, html(views, _series(db, views), submission, _diagnoses(db, views)))
    return views


def html(
    views: Sequence[TrainingView],
    series: Sequence[tuple[TrainingView, Sequence[float]]],
    submission: dict[str, Any],
    diagnoses: Sequence[tuple[TrainingView, Diagnosis]] = (),
) -> str:
    """The page as HTML; ``series``: the measured steps of runs in the order of time, ms; ``diagnoses``: of runs."""
    drawn: dict[str, Any] = {}
    parts = []
    for section in sections(views, series, diagnoses):
        keys = [f"c{len(drawn) + number}" for number in range(len(section.charts))]
        drawn.update(zip(keys, section.charts, strict=True))
        parts.append({"title": section.title, "charts": keys, "tables": section.tables})
    return page.render(
        "training.html",
        title=str(submission.get("name") or "training"),
        subtitle=_subtitle(views),
        description=submission.get("description") or "",
        advice=sentences(views),
        troubled=[view for view in views if not view.valid],
        notes=_notes(views),
        runs=tables.runs(views),
        sections=parts,
        certificates=[_certificate(view) for view in views if view.result.certificate],
        provenance=tables_of([view.label for view in views], [_facts(view) for view in views]),
        submission=page.as_yaml(submission),
        charts=drawn,
    )


def sections(
    views: Sequence[TrainingView],
    series: Sequence[tuple[TrainingView, Sequence[float]]],
    diagnoses: Sequence[tuple[TrainingView, Diagnosis]] = (),
) -> list[Section]:
    """What there is to show of these runs, in the order of the page; see ``html`` for the others."""
    own = [chart for view in views[:MOST_RUNS] for chart in (charts.cores(view), charts.ranks(view))]
    blocks: tuple[tuple[str, list[Chart | None], list[dict[str, Any]]], ...] = (
        ("What holds it up", [], tables.diagnoses(diagnoses)),
        ("Steps", [charts.phases(views), charts.course(series)], []),
        ("Phases", own, tables.phases(views)),
        ("Energy, CO2 and cost", [], tables.spending(views)),
        ("Loading", [], [*stalls(views), *tables.loader(views)]),
        ("The device's own stamps", [], tables.events(views)),
        ("BenchmarkJade's columns", [], tables.jade(views)),
    )
    drawn = [
        Section(title, [chart for chart in pictures if chart is not None], tables=of)
        for title, pictures, of in blocks
    ]
    return [section for section in drawn if section.charts or section.tables]


def sections_of(db: PerfDB, run_ids: Sequence[str]) -> list[Section]:
    """The sections of these runs, with their steps read from PerfDB."""
    views = load_views(db, run_ids)
    return sections(views, _series(db, views), _diagnoses(db, views))


def _diagnoses(db: PerfDB, views: Sequence[TrainingView]) -> list[tuple[TrainingView, Diagnosis]]:
    """Of the runs that have figures."""
    pairs = []
    for view in views:
        if view.timing is None:
            continue
        try:
            ranks = ranks_of(db, view.result)
        except PerfDBError as error:
            log.warning("no steps of %s: %s", view.run_id, error)
            ranks = []
        pairs.append((view, diagnose(view.result, ranks)))
    return pairs


def _series(db: PerfDB, views: Sequence[TrainingView]) -> list[tuple[TrainingView, list[float]]]:
    return [(view, steps_ms) for view in views if (steps_ms := _steps_ms(db, view))]


def _subtitle(views: Sequence[TrainingView]) -> str:
    results = [view.result for view in views]
    parts = [" and ".join(dict.fromkeys(result.model.name for result in results if result.model))]
    parts.append(
        " and ".join(dict.fromkeys(str(result.data.get("kind")) for result in results if result.data))
    )
    devices = [result.device.name or result.device.kind for result in results if result.device]
    parts.append(" and ".join(dict.fromkeys(devices)))
    if results:
        parts.append(f"{results[0].created_at:%Y-%m-%d %H:%M} UTC")
    return " · ".join(part for part in parts if part)


def _notes(views: Sequence[TrainingView]) -> list[str]:
    """A run's warnings in one note."""
    warnings = [(view.label, view.result.certificate.get("warnings", [])) for view in views]
    return [f"{label}: {'; '.join(texts)}." for label, texts in warnings if texts]


def _facts(view: TrainingView) -> dict[str, Any]:
    result = view.result.model_dump()
    provenance = result["provenance"]
    return flatten(
        {
            "run": view.run_id,
            **{
                name: result[name]
                for name in ("attempt", "benchmark", "model", "data", "loader", "engine", "device")
            },
            "environment": result["environment"],
            "versions": provenance.get("versions"),
            "inferbench commit": provenance.get("git_sha"),
            "uncommitted changes": provenance.get("git_dirty"),
            "seeds": provenance.get("seeds"),
            "steps sha256": (result["samples"] or {}).get("sha256"),
        }
    )


def _certificate(view: TrainingView) -> dict[str, Any]:
    certificate = view.result.certificate
    return {
        "label": view.label,
        "valid": certificate.get("valid"),
        "reasons": [reason.text for reason in reasons_of(certificate)],
    }


def _steps_ms(db: PerfDB, view: TrainingView) -> list[float]:
    """The measured steps of the epochs with instruments, mean of ranks, in the order of time; [] without any."""
    import pyarrow
    import pyarrow.parquet

    if view.result.samples is None:
        return []
    try:
        content = db.files.get(view.result.samples)
    except PerfDBError as error:
        log.warning("no steps of %s: %s", view.run_id, error)
        return []
    table = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content)).read().to_pylist()
    steps: dict[tuple[int, int], list[float]] = {}
    for row in table:
        if row["part"] == "measured" and row.get("timing", "synchronised") == "synchronised":
            steps.setdefault((row["round"], row["step"]), []).append(row["step_ns"] / 1e6)
    return [sum(of) / len(of) for _, of in sorted(steps.items())]
