"""From raw records to results, report and verdicts, through a real PerfDB."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from inferbench_tasks import settings
from inferbench_tasks.analysis.recommend.leaderboard import leaderboard
from inferbench_tasks.analysis.report.finalise import finalise
from inferbench_tasks.analysis.report.markdown import make_markdown
from inferbench_tasks.analysis.report.runs import load_runs
from inferbench_tasks.cli import report
from inferbench_tasks.errors import PerfDBError
from inferbench_tasks.monitors.records import convert_spool
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stages import analyze, collect
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.evaluate import Output as Evaluated
from inferbench_tasks.stages.trace import Output as Traced
from inferbench_tasks.submission.schema import Submission
from tests.samples import write_table
from tests.unit.analysis.builders import SECOND, job_spec, records

pytestmark = pytest.mark.integration
GOOD: dict[str, Any] = {"valid": True, "reasons": [], "warnings": [], "checks": []}


@pytest.fixture
def ctx(perfdb: PerfDB, data_dir: Path) -> Context:
    """A context on the test's own database."""
    return Context(data_dir=data_dir, perfdb_uri=perfdb.uri)


def stage_input(
    ctx: Context, run_id: str = "inv.000", certificate: dict[str, Any] = GOOD, **job: Any
) -> collect.Input:
    """What the earlier stages would hand over, with real records and a real recording in files."""
    folder = ctx.run_dir(run_id)
    write_table(records(5.0), folder / "samples.parquet")
    lines = "".join(
        f'[{int(t * SECOND)}, "server", {{"cpu_s_total": {t * 0.5}, "rss_bytes": 1000}}]\n'
        f'[{int(t * SECOND)}, "client", {{"cpu_s_total": {t * 0.1}}}]\n'
        f'[{int(t * SECOND)}, "host", {{"cpu_busy_s_total": {t * 0.6}}}]\n'
        for t in np.arange(0, 11, 0.5)
    )
    (folder / "spool").write_text(lines)
    convert_spool(folder / "spool", folder / "monitors.parquet", None)
    model = {
        "name": "digits", "framework": "sklearn", "format": "onnx", "path": "m", "digest": "d" * 64,
        "accuracy_ratio": 0.97, "inputs": [], "outputs": [],
    }  # fmt: skip
    requests = {"path": "r", "reference_path": "r", "samples": 3, "digest": "e"}
    cold = {"process_ms": 1, "model_load_ms": 2, "first_answer_ms": 3, "total_ms": 6}
    backend = {
        "kind": "onnxruntime",
        "version": "1",
        "launcher": "process",
        "label": "ONNX Runtime",
        "settings": {},
    }
    server = {"launcher": "process", "pid": 1, "started_ns": 1, "log_path": "l", "config_path": "c"}
    endpoint = {"protocol": "http", "host": "127.0.0.1", "port": 1, "model_name": "digits"}
    return collect.Input.model_validate(
        {
            "run_id": run_id,
            "job_id": "job",
            "job": job_spec(**job),
            "generate": {"model": model, "requests": requests, "cached": False},
            "convert": {
                "model": model, "difference_ratio": 1e-6, "tolerance_ratio": 1e-3, "accuracy_ratio": 0.97,
                "cached": False,
            },
            "serve": {
                "endpoint": endpoint, "server": server, "backend": backend, "cold_start": cold,
                "difference_ratio": 1e-6,
            },
            "load": {
                "samples_path": str(folder / "samples.parquet"),
                "monitors_path": str(folder / "monitors.parquet"),
                "measure_start_ns": 2 * SECOND,
                "measure_end_ns": 10 * SECOND,
                "epoch_offset_ns": 0,
                "requests": 2000,
                "certificate": certificate,
                "accuracy_ratio": 0.96,
                # 24 of 25 right, all but the last.
                "accuracy": {"samples": 25, "right": "1fffffe", "samples_digest": "ab"},
            },
        }
    )  # fmt: skip


def test_a_result_holds_what_the_records_say(perfdb: PerfDB, ctx: Context) -> None:
    """Figures, CPU, memory, accuracy, cold start, environment and provenance land in one document, once."""
    inp = stage_input(ctx)
    assert collect.run(inp, ctx).verdict.valid
    result = perfdb.get_result("inv.000")
    raw = perfdb.samples("inv.000").to_pandas()
    measured = raw[raw.phase == "measure"]
    latency = np.sort((measured.done_ns - measured.intended_ns) / 1e6)
    assert result.summary.e2e_latency_ms.p99 == latency[int(np.ceil(0.99 * len(latency))) - 1]
    assert result.summary.resources["server"]["cpu_cores"]["mean"] == pytest.approx(0.5)
    assert result.summary.accuracy_ratio == 0.96
    counted = result.summary.model_dump()["accuracy"]
    assert (counted["right"], counted["samples"]) == (24, 25) and counted["ci95"][0] < 0.96 < counted["ci95"][
        1
    ]
    assert result.extensions["accuracy"] == {"samples_digest": "ab", "right": "1fffffe"}
    assert result.summary.cold_start_ms["total_ms"] == 6
    assert result.model.accuracy_ratio == 0.97
    assert result.environment["hardware"]["cpu"] and result.environment["system"]["kernel"]
    assert result.provenance.versions["numpy"] == np.__version__
    assert result.provenance.seeds == {"load": 1}
    assert perfdb.files.get(result.extensions["monitors"]["id"])[:4] == b"PAR1"
    assert collect.run(inp, ctx).verdict.valid
    assert len(perfdb.find_results()) == 1


def without_load(inp: collect.Input, **job: Any) -> collect.Input:
    """The same run of a job without a load."""
    spec = job_spec(**job).model_copy(update={"load": None})
    return inp.model_copy(update={"load": None, "job": spec})


def test_a_run_without_a_load_has_measures_and_no_latency(perfdb: PerfDB, ctx: Context) -> None:
    """It is valid by its answers, judged by its objective, told from every load, reported, and never written twice."""
    measures = {"top1_ratio": {"value": 0.96, "ci95": [0.94, 0.98]}}
    part = {"unanswered": 0, "failures": {}, "measures": measures, "left_out": {}}
    differing = {"compared": 3, "beyond_tolerance": 0, "largest_ratio": 0.0, "samples": []}
    document = {
        "dataset": "digits", "samples": 3, "scenario": "one_by_one", "under_load": part, "one_by_one": part,
        "differing": differing, "from_source": differing,
    }  # fmt: skip
    inp = without_load(stage_input(ctx), evaluate={}, slo={"top1_ratio": 0.9})
    answers = ctx.run_dir("inv.000") / "answers.parquet"
    write_table(records(5.0), answers)
    inp = inp.model_copy(update={"evaluate": Evaluated(answers_path=str(answers), document=document)})
    assert collect.run(inp, ctx).verdict.valid and collect.run(inp, ctx).verdict.valid
    (result,) = perfdb.find_results()
    assert result.samples is None and result.certificate == {} and result.attempt == 1
    summary = result.summary.model_dump()
    assert (summary["throughput_rps"], summary["e2e_latency_ms"]["p99"]) == (None, None)
    assert (summary["slo"]["verdict"], summary["cold_start_ms"]["total_ms"]) == ("met", 6)
    (row,) = leaderboard(perfdb, "top1_ratio")
    assert (row["top1_ratio"], row["load"], row["dataset"]) == (0.96, "no load", "3 samples of digits")
    assert leaderboard(perfdb, "p99_ms") == []


def test_a_trace_that_failed_is_all_that_a_job_without_a_load_had(perfdb: PerfDB, ctx: Context) -> None:
    """Beside a load it leaves the run alone; alone it is the run's failure."""
    traced = Traced(document={"problem": "the server left no trace\nits log"})
    inp = stage_input(ctx, trace={}).model_copy(update={"trace": traced})
    assert collect.run(inp, ctx).verdict.valid
    inp = without_load(stage_input(ctx, "inv.001"), trace={}).model_copy(update={"trace": traced})
    assert str(collect.run(inp, ctx).verdict) == "failed: trace, the server left no trace"


def test_a_bad_certificate_makes_the_run_invalid_with_its_reasons(perfdb: PerfDB, ctx: Context) -> None:
    """The verdict lists every reason of the certificate, and an early end."""
    bad = {**GOOD, "valid": False, "reasons": ["the client stalled", "5 requests failed"]}
    inp = stage_input(ctx, certificate=bad)
    assert inp.load is not None
    inp = inp.model_copy(update={"load": inp.load.model_copy(update={"stopped_early": "too many errors"})})
    verdict = collect.run(inp, ctx).verdict
    assert (
        str(verdict)
        == "invalid: the load ended early: too many errors; the client stalled; 5 requests failed"
    )
    assert perfdb.get_result("inv.000").verdict == verdict


def started(perfdb: PerfDB, run_id: str, stage: str, **job: Any) -> None:
    perfdb.start_run(run_id, "inv", "job", job_spec(**job).model_dump(mode="json"))
    perfdb.stage_started(run_id, stage)


def test_every_started_run_ends_with_a_result(perfdb: PerfDB, ctx: Context) -> None:
    """Failed, cancelled and killed runs get results with their cause; a second look changes nothing."""
    for run_id in ("inv.000", "inv.001", "inv.002", "inv.003"):
        started(perfdb, run_id, "serve")
    collect.run(stage_input(ctx), ctx)
    perfdb.stage_failed("inv.001", "serve", 1, state="failed", error="The server died: <script>")
    perfdb.stage_failed("inv.002", "serve", 1, state="cancelled", error="Ctrl-C")
    assert finalise(perfdb, [f"inv.{i:03d}" for i in range(5)]) != []
    verdicts = {view.run_id: view.said for view in load_runs(perfdb, [f"inv.{i:03d}" for i in range(5)])}
    assert verdicts["inv.000"] == "valid"
    assert verdicts["inv.001"] == "failed: serve, The server died: <script>"
    assert verdicts["inv.002"] == "cancelled: serve"
    assert verdicts["inv.003"].startswith("failed: serve, it ended without a word")
    assert "inv.004" not in verdicts
    assert finalise(perfdb, list(verdicts)) == []


def test_the_report_is_written_and_kept_with_the_invocation(perfdb: PerfDB, ctx: Context) -> None:
    """One file over all runs, in the invocation's folder and in PerfDB; also as Markdown."""
    for run_id, batch_size in (("inv.000", 1), ("inv.001", 8), ("inv.002", 1)):
        started(perfdb, run_id, "collect", load__batch_size=batch_size)
    collect.run(stage_input(ctx), ctx)
    collect.run(stage_input(ctx, "inv.001", load__batch_size=8), ctx)
    perfdb.stage_failed("inv.002", "collect", 1, state="failed", error="No | space <b>left</b>")
    submission = Submission.model_validate(job_spec().model_dump())
    done = analyze.run(
        analyze.Input(invocation_id="inv", submission=submission, run_ids=("inv.000", "inv.001", "inv.002")),
        ctx,
    )
    text = Path(done.report_path).read_text()
    assert "batch_size 8" in text and "No | space &lt;b&gt;left&lt;/b&gt;" in text
    assert done.verdicts["inv.000"] == "valid"
    attached = perfdb.get_invocation("inv").attachments[0]
    assert perfdb.files.get(attached).decode() == text
    make_markdown(perfdb, ["inv.000", "inv.002"], {"name": "x"}, ctx.data_dir / "report.md")
    table = (ctx.data_dir / "report.md").read_text()
    assert r"No \| space \<b\>left" in table and "| valid |" in table


def test_a_report_made_again_knows_its_submission(
    perfdb: PerfDB, ctx: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From PerfDB alone, on any machine: title, description and YAML are those of the first one."""
    started(perfdb, "inv.000", "collect")
    collect.run(stage_input(ctx), ctx)
    asked = {**job_spec().model_dump(), "description": "Which server is cheapest?"}
    inp = analyze.Input(
        invocation_id="inv", submission=Submission.model_validate(asked), run_ids=("inv.000",)
    )
    first = Path(analyze.run(inp, ctx).report_path).read_text()
    monkeypatch.setenv(settings.PERFDB_URI, perfdb.uri)
    target = ctx.data_dir / "again.html"
    typer.main.get_command(report.app)(args=["inv", "--to", str(target), "-o", "json"], standalone_mode=False)
    again = target.read_text()
    assert json.loads(capsys.readouterr().out)["verdicts"] == {"inv.000": "valid"}
    for part in ("Which server is cheapest?", "p99_ms: 20.0", "<title>"):
        assert part in first and part in again
    title = first.split("<title>")[1].split("</title>")[0]
    assert f"<title>{title}</title>" in again


def test_raw_records_that_are_gone_are_named(perfdb: PerfDB, ctx: Context) -> None:
    """A report is made without them, and says so."""
    started(perfdb, "inv.000", "collect")
    collect.run(stage_input(ctx), ctx)
    stored = perfdb.get_result("inv.000").samples
    assert stored is not None
    perfdb.files.delete(stored)
    with pytest.raises(PerfDBError):
        perfdb.samples("inv.000")
    submission = Submission.model_validate(job_spec().model_dump())
    done = analyze.run(analyze.Input(invocation_id="inv", submission=submission, run_ids=("inv.000",)), ctx)
    assert "its raw records can&#39;t be read" in Path(done.report_path).read_text()
