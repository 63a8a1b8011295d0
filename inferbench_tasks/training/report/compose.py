"""The report of an invocation: one HTML file over all its runs, whatever became of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.report import page
from inferbench_tasks.analysis.report.provenance import tables_of
from inferbench_tasks.analysis.report.sections import Section
from inferbench_tasks.contracts.verdict import reasons_of
from inferbench_tasks.dotted import flatten
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training.diagnosis.measured import Diagnosis
from inferbench_tasks.training.diagnosis.observation import Steps, of_result
from inferbench_tasks.training.diagnosis.of_run import diagnosis_of, steps_of
from inferbench_tasks.training.report import charts, course, diagnosis_tables, hosts, prediction, tables
from inferbench_tasks.training.report.stalls import stalls
from inferbench_tasks.training.report.views import TrainingView, load_views
from inferbench_tasks.training.report.words import sentences

#: A run and its raw steps by rank; [] where they can't be read.
RawSteps = tuple[TrainingView, Sequence[Steps]]
REPORT_FILE = "report.html"
#: So many runs have pictures of their own, or are named with a warning; of the others the tables tell.
MOST_RUNS = 6


def make_report(
    db: PerfDB, run_ids: Sequence[str], submission: dict[str, Any], path: Path
) -> list[TrainingView]:
    """Draw the report of these runs into a file; the runs that it shows."""
    views = load_views(db, run_ids)
    steps = _steps(db, views)
    page.write(path, html(views, steps, submission, _diagnoses(db, steps)))
    return views


def html(
    views: Sequence[TrainingView],
    steps: Sequence[RawSteps],
    submission: dict[str, Any],
    diagnoses: Sequence[tuple[TrainingView, Diagnosis]] = (),
) -> str:
    """The page as HTML; ``steps``: of runs that have them; ``diagnoses``: of runs."""
    drawn: dict[str, Any] = {}
    parts = []
    for section in sections(views, steps, diagnoses):
        keys = [f"c{len(drawn) + number}" for number in range(len(section.charts))]
        drawn.update(zip(keys, section.charts, strict=True))
        parts.append({"title": section.title, "charts": keys, "tables": section.tables})
    return page.render(
        "training.html",
        title=str(submission.get("name") or "training"),
        subtitle=_subtitle(views),
        description=submission.get("description") or "",
        advice=sentences(views, diagnoses),
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
    steps: Sequence[RawSteps],
    diagnoses: Sequence[tuple[TrainingView, Diagnosis]] = (),
) -> list[Section]:
    """What there is to show of these runs, in the order of the page; see ``html`` for the others."""
    own = [chart for view in views[:MOST_RUNS] for chart in (charts.cores(view), charts.ranks(view))]
    over_steps = [
        chart
        for view, ranks in steps[:MOST_RUNS]
        for chart in (
            course.phases(view, ranks),
            course.ranks(view, ranks),
            course.workers(view, ranks, view.workers),
        )
    ]
    models = [prediction.by_workers(view, of_result(view.result, ranks)) for view, ranks in steps[:MOST_RUNS]]
    series = [(view, times_ms) for view, ranks in steps if len(times_ms := _step_ms(ranks))]
    blocks: tuple[tuple[str, list[Chart | None], list[dict[str, Any]]], ...] = (
        ("What holds it up", models, diagnosis_tables.diagnoses(diagnoses)),
        ("Steps", [charts.phases(views), charts.course(series)], []),
        ("Phases", own, tables.phases(views)),
        ("Two hosts", [], hosts.links(views)),
        ("Over the steps", over_steps, []),
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
    steps = _steps(db, views)
    return sections(views, steps, _diagnoses(db, steps))


def _steps(db: PerfDB, views: Sequence[TrainingView]) -> list[RawSteps]:
    """Of the runs that have figures; [] of one whose steps can't be read."""
    return [(view, steps_of(db, view.result)) for view in views if view.timing is not None]


def _diagnoses(db: PerfDB, steps: Sequence[RawSteps]) -> list[tuple[TrainingView, Diagnosis]]:
    return [(view, diagnosis_of(db, view.result, ranks)) for view, ranks in steps]


def _step_ms(ranks: Sequence[Steps]) -> list[float]:
    """The measured steps of the epochs with instruments, mean of ranks, in the order of time."""
    if not ranks:
        return []
    count = min(len(of["step_ns"]) for of in ranks)
    means: list[float] = (np.mean([of["step_ns"][:count] for of in ranks], axis=0) / 1e6).tolist()
    return means


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
    """Each warning once, with the runs that have it: those of most runs first."""
    labels_of: dict[str, list[str]] = {}
    for view in views:
        for text in dict.fromkeys(view.result.certificate.get("warnings", [])):
            labels_of.setdefault(text, []).append(view.label)
    shared = sorted(labels_of.items(), key=lambda item: -len(item[1]))
    return [f"{_whose(labels, len(views))}: {text}." for text, labels in shared]


def _whose(labels: Sequence[str], runs: int) -> str:
    if len(labels) == 1:
        return labels[0]
    if len(labels) == runs:
        return f"All {runs} runs"
    more = f"; and {len(labels) - MOST_RUNS} more" if len(labels) > MOST_RUNS else ""
    return f"{len(labels)} of {runs} runs ({'; '.join(labels[:MOST_RUNS])}{more})"


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
            **hosts.second(result["extensions"]),
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
