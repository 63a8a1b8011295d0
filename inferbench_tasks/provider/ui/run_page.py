"""The page of one run, and its charts."""

from __future__ import annotations

import re
import shlex
from typing import Any
from urllib.parse import quote

import yaml
from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from inferbench_tasks import settings
from inferbench_tasks.analysis.report import slowest
from inferbench_tasks.analysis.report.columns import columns_of
from inferbench_tasks.analysis.report.compose import notes_of
from inferbench_tasks.analysis.report.missing import missing_notes
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.provenance import provenance_tables
from inferbench_tasks.analysis.report.runs import RunView, load_runs
from inferbench_tasks.contracts.verdict import reasons_of
from inferbench_tasks.perfdb.documents import ResultBase, ResultDocument, RunDocument
from inferbench_tasks.perfdb.offered import spoken
from inferbench_tasks.pipelines.base import pipeline_of, results_of
from inferbench_tasks.provider.api.access import MayChange, Store, User
from inferbench_tasks.provider.api.parameters import ONE_REQUEST
from inferbench_tasks.provider.api.runs import find
from inferbench_tasks.provider.submit.notes import SUBMIT
from inferbench_tasks.provider.ui.following import stages_of
from inferbench_tasks.provider.ui.live import HEIGHT, WIDTH, live_of
from inferbench_tasks.provider.ui.render import asker, page, query
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.training.result import TrainingResult

router = APIRouter(include_in_schema=False)
#: An invocation's id as ``invocation.dag_run_invocation`` makes it.
_OF_A_DAG = re.compile(r"(?P<dag_id>.+)-[0-9A-Za-z]{1,24}-[0-9a-f]{8}")


@router.get("/run/{run}", response_class=HTMLResponse, dependencies=[ONE_REQUEST])
def run_page(run: str, db: Store, user: User, may_change: MayChange) -> HTMLResponse:
    """Summary, stages, certificate, provenance and links; a run that goes on is followed."""
    record, result = find(db, run)
    run_id = record.run_id if record else result.run_id if result else run
    (view,) = load_runs(db, [run_id])
    others = results_of(db, record) if record and result is None else []
    pipeline = pipeline_of(record.job if record else {})
    invocation = (record or result).invocation_id if record or result else None  # type: ignore[union-attr]
    stages = stages_of(record) if record else []
    running = record is not None and record.status == "running"
    report = settings.data_dir() / "invocations" / (invocation or "-") / "report.html"
    return page(
        "run.html",
        here="runs",
        run_id=run_id,
        verdict=view.said_with_load,
        valid=view.valid,
        running=running,
        live=live_of(db, record) if record and running else None,
        live_size=(WIDTH, HEIGHT),
        may_end=running and record is not None and _may_end(record, user, may_change),
        result=result,
        samples=result is not None and result.samples is not None,
        drawable=(result is not None or bool(others)) and not running,
        invocation=invocation,
        report=f"/inferbench/report/{invocation}" if report.is_file() else None,
        board="/inferbench/leaderboard" + query(model=result.model.name, mark=invocation) if result else None,
        warnings=[
            *(notes_of([view], 0) if result and not result.samples else _warnings(view)),
            *(getattr(others[0], "certificate", {}).get("warnings", []) if others else []),
        ],
        tiles=tiles(view) if result or not others else tiles_of_another_kind(others[0], record),
        facts=facts(view) | (pipeline.described(others[0]) if others else {}),
        trace=f"/inferbench/trace/{quote(run_id)}" if _traced(result, others) else None,
        downloads=pipeline.downloads(others[0]) if others else {},
        certificate_of="the stimulus" if result or not others else "its figures",
        ways=ways(view),
        airflow=airflow_path(invocation),
        stages=stages,
        certificate=_certificate(result or next(iter(others), None)),
        provenance=[
            {"title": t["title"], "head": None, "rows": t["rows"]} for t in provenance_tables([view])
        ],
        job=yaml.safe_dump(as_asked(view.job), sort_keys=False, allow_unicode=True) if view.job else "",
    )


def as_asked(job: dict[str, Any]) -> dict[str, Any]:
    """A job without the fields that it does not use and that most have no use for: a digits run has no tokens."""
    asked: dict[str, Any] = {
        name: dict(value) if isinstance(value, dict) else value for name, value in job.items()
    }
    for path, default in JobSpec.newer.items():
        group, _, name = path.rpartition(".")
        holder = asked.get(group) if group else asked
        if isinstance(holder, dict) and name in holder and holder[name] == default:
            del holder[name]
    return asked


@router.get("/api/runs/{run}/charts", summary="A run's charts, as plotly's JSON")
def charts(run: str, db: Store) -> Response:
    """``sections``: each with title, text, tables and charts."""
    import orjson

    record, result = find(db, run)
    run_id = record.run_id if record else result.run_id if result else run
    pipeline = pipeline_of(record.job if record else {})
    found = list(pipeline.sections(db, [run_id]))
    if result is not None and (single := slowest.section(*load_runs(db, [run_id]))):
        found.insert(1, single)
    chart_sections = [
        {"title": s.title, "text": s.text, "tables": s.tables, "charts": s.charts} for s in found
    ]
    body = orjson.dumps(
        {"sections": chart_sections}, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    )
    return Response(body, media_type="application/json")


def _traced(result: ResultDocument | None, others: list[Any]) -> bool:
    """Whether it has a trace, or a reason why not: that of requests, or of a training's steps."""
    return bool(result and result.extensions.get("trace")) or any(
        isinstance(other, TrainingResult) and other.samples is not None for other in others
    )


def _may_end(record: RunDocument, user: User, may_change: MayChange) -> bool:
    """Whether it is a run of the user's own, or one that the user may change; not of ``inferbench run``, whose terminal
    ends it.
    """
    local = (settings.data_dir() / "invocations" / record.invocation_id / "order.json").exists()
    return not local and (record.submission.login == user.get_name() or may_change(SUBMIT))


def tiles(view: RunView) -> list[dict[str, str]]:
    """The figures that the run has, with their units."""
    return [{"title": column.title, "value": column.cell(view)} for column in columns_of([view])]


def tiles_of_another_kind(result: ResultBase, record: RunDocument | None) -> list[dict[str, str]]:
    """The figures of a run that is no serving job, as its pipeline names them; none without figures."""
    figures = pipeline_of(record.job if record else {}).figures(result)
    return [{"title": title.replace("_", " "), "value": number(value)} for title, value in figures.items()]


def facts(view: RunView) -> dict[str, Any]:
    """What was run, in a person's order."""
    job, result = view.job, view.result
    document = view.run or result
    login = document.submission.login if document else None
    fields: dict[str, Any] = {"submission": job.get("name"), "user": asker(job.get("user"), login)}
    if result is not None:
        # The environment is long, and stands below with everything else of the provenance.
        settings_text = ", ".join(
            f"{k} {v}" for k, v in result.backend.settings.items() if k != "env" and v not in (None, {}, [])
        )
        fields |= {
            "model": f"{result.model.name} v{result.model.version}",
            "format": result.format,
            "backend": result.backend.label
            or f"{result.backend.kind} {result.backend.version or ''}".strip(),
            "settings": settings_text or None,
            "device": result.device.name or result.device.kind,
            "created": result.created_at,
        }
    load = job.get("load") or {}
    arrivals = load.get("arrivals") or {}
    fields |= {
        "arrivals": ", ".join(f"{k} {v}" for k, v in arrivals.items()) or None,
        "batch size": view.samples_per_request or load.get("batch_size"),
        "duration, s": load.get("duration_s"),
        "warm-up, s": load.get("warmup_s"),
        # Of a load from another host the result says which network it was; the job asked for none.
        "network": (result.load.model_dump().get("network") if result else None) or load.get("network"),
        "protocol": spoken(load),
        "seed": load.get("seed"),
    }
    return {name: value for name, value in fields.items() if value is not None}


def ways(view: RunView) -> dict[str, str]:
    """Where facts lead to: the model's page, and all runs of the submission."""
    name = view.job.get("name") or (view.result.submission.name if view.result else None)
    found = {"submission": "/inferbench/runs" + query(q=f"submission={shlex.quote(name)}")} if name else {}
    return found | (
        {"model": "/inferbench/model" + query(name=view.result.model.name)} if view.result else {}
    )


def airflow_path(invocation: str | None) -> str | None:
    """The runs of the DAG that executed an invocation, in Airflow's own pages; None where no DAG of here did."""
    folder = settings.data_dir() / "invocations" / (invocation or "-")
    named = _OF_A_DAG.fullmatch(invocation or "")
    if named is None or not folder.is_dir() or (folder / "order.json").exists():
        return None
    return f"/dags/{quote(named['dag_id'])}/runs"


def _warnings(view: RunView) -> list[str]:
    """Like ``notes_of``, without reading the raw records for it."""
    monitor = view.figure("resources.monitor") or {}
    warnings = list(view.result.certificate.get("warnings", [])) if view.result else []
    if monitor.get("problem"):
        warnings.append(f"The monitors' record is not complete: {monitor['problem']}")
    return warnings + missing_notes([view])


def _certificate(result: Any) -> dict[str, Any] | None:
    document = getattr(result, "certificate", None)
    if not document:
        return None
    checks = [
        {"limit": None, "unit": "", "value": None, "ok": None, **check}
        for check in document.get("checks", [])
    ]
    return {
        "valid": document.get("valid"),
        "reasons": [reason.text for reason in reasons_of(document)],
        "checks": checks,
    }
