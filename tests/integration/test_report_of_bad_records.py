"""Records that lack something, on disk and in a real PerfDB: a report all the same, with what is missing named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from inferbench_tasks.analysis.report.compose import make_report
from inferbench_tasks.analysis.report.finalise import finalise
from inferbench_tasks.analysis.report.markdown import make_markdown
from inferbench_tasks.catalogue import CONFIG_DIR
from inferbench_tasks.loadgen.certificate import certify
from inferbench_tasks.loadgen.evidence import ClosedPlan, ShardUsage
from inferbench_tasks.loadgen.records import column
from inferbench_tasks.monitors.records import convert_spool
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stages import collect
from inferbench_tasks.stages.base import Context
from tests.integration.test_analysis import stage_input
from tests.samples import write_table
from tests.unit.analysis.builders import SECOND, records

pytestmark = pytest.mark.integration


@pytest.fixture
def ctx(perfdb: PerfDB, data_dir: Path) -> Context:
    """A context on the test's own database."""
    return Context(data_dir=data_dir, perfdb_uri=perfdb.uri)


def certificate_of(table: pa.Table) -> dict[str, Any]:
    """As the stage ``load`` makes it, of one closed-loop sender that did well."""
    usage = ShardUsage(shard=0, cpu_s=0.1, wall_s=8.0, max_stall_ns=0)
    return certify(
        table, ClosedPlan(concurrency=1), [usage], measure_start_ns=2 * SECOND, measure_end_ns=10 * SECOND
    ).model_dump()


def collected(ctx: Context, table: pa.Table, monitors: str | None = None, **job: Any) -> collect.Input:
    """The input of ``collect`` with these raw records, and these lines of the monitors' spool if any."""
    inp = stage_input(ctx, certificate=certificate_of(table), **job)
    folder = ctx.run_dir(inp.run_id)
    write_table(table, folder / "samples.parquet")
    if monitors is not None:
        (folder / "spool").write_text(monitors)
        convert_spool(folder / "spool", folder / "monitors.parquet", None)
    return inp


def reported(db: PerfDB, ctx: Context, inp: collect.Input) -> tuple[ResultDocument, str, str]:
    """The run's result, its HTML report and its Markdown one."""
    collect.run(inp, ctx)
    finalise(db, [inp.run_id])
    make_report(db, [inp.run_id], {"name": "x"}, ctx.data_dir / "report.html")
    make_markdown(db, [inp.run_id], {"name": "x"}, ctx.data_dir / "report.md")
    pages = ((ctx.data_dir / f"report.{kind}").read_text() for kind in ("html", "md"))
    html, markdown = pages
    assert "NaN" not in html.split("<script")[0] and "None" not in html.split("<script")[0]
    return db.get_result(inp.run_id), html, markdown.replace("\\", "")


def test_a_gpu_run_without_gpu_metrics(perfdb: PerfDB, ctx: Context) -> None:
    """Utilisation, memory and energy of the GPU are named as not measured; CPU and latency are there."""
    inp = collected(ctx, records(5.0), serve__device="gpu:0", serve__backend="onnxruntime")
    result, html, markdown = reported(perfdb, ctx, inp)
    assert result.summary.e2e_latency_ms.p99 is not None
    for text in (html, markdown):
        assert "utilisation, memory, power and clocks of the GPU: not measured" in text
        assert "energy: not known (nvml_counter" in text
        assert "cost: not known (the device tells no name, so no price fits it)" in text
    assert "GPU: not watched" in html
    energy = result.summary.model_dump()["energy"]
    assert energy["joule_per_request"] is None and energy["reason"]


def test_a_run_without_any_monitor(perfdb: PerfDB, ctx: Context) -> None:
    """An empty recording: no CPU, no memory, and no 0 in their place."""
    result, html, markdown = reported(perfdb, ctx, collected(ctx, records(5.0), monitors=""))
    for text in (html, markdown):
        assert "CPU and memory of the server: not measured" in text
        assert "CPU of the machine: not measured" in text
    assert "server" not in result.summary.resources
    assert "CPU, cores" not in html


def test_a_run_with_one_sample(perfdb: PerfDB, ctx: Context) -> None:
    """One good answer: its latency is the mean, no percentile is made up, and nothing is recommended by it."""
    one = records(5.0, rate_rps=200).slice(400, 1)
    result, html, markdown = reported(perfdb, ctx, collected(ctx, one))
    latency = result.summary.e2e_latency_ms
    assert result.summary.model_dump()["ok"] == 1 and latency.mean is not None
    assert [latency.p50, latency.p95, latency.p99] == [None, None, None]
    for text in (html, markdown):
        assert "its 1 good answers are too few for p50 (11), p90 (64), p95 (130), p99 (662)" in text
        assert "1 good answers, too few for p99" in text or "No run is valid" in text


def test_a_run_in_which_every_request_failed(perfdb: PerfDB, ctx: Context) -> None:
    """No latency, no cost and no energy per request; the errors are told by kind and the run does not count."""
    table = records(5.0, failed=2000)
    result, html, markdown = reported(perfdb, ctx, collected(ctx, table))
    assert result.verdict.kind == "invalid"
    assert result.summary.model_dump()["error_ratio"] == 1.0 and result.summary.e2e_latency_ms.mean is None
    for text in (html, markdown):
        assert "none of its 1,600 requests got a good answer (1,600 timeout), so there is no latency" in text
        assert "cost: not known (nothing was answered)" in text
        assert "No run is valid, so there is nothing to recommend" in text


def test_clocks_that_jump_in_the_records(perfdb: PerfDB, ctx: Context) -> None:
    """A clock that went back by a second for some answers: the run does not count, and the report says why."""
    table = records(5.0)
    done = column(table, "done_ns").copy()
    done[700:720] -= SECOND
    at = table.column_names.index("done_ns")
    result, html, markdown = reported(
        perfdb, ctx, collected(ctx, table.set_column(at, table.schema.field(at), pa.array(done)))
    )
    assert "20 of 2000 records have an answer before their request: a clock jumped" in str(result.verdict)
    assert result.verdict.kind == "invalid"
    for text in (html, markdown):
        assert "a clock jumped: there are answers before their requests (by up to 99" in text


def test_clocks_that_jump_in_the_monitors(perfdb: PerfDB, ctx: Context) -> None:
    """A counter that fell and samples out of order: what was used is not known and has no figure; there is a report."""
    rows = [(t, t * 0.5 if t < 6 else (t - 6) * 0.5) for t in np.arange(0, 11, 0.5)]
    rows[8], rows[9] = rows[9], rows[8]
    spool = "".join(
        f'[{int(t * SECOND)}, "server", {{"cpu_s_total": {cpu}, "rss_bytes": 1000}}]\n' for t, cpu in rows
    )
    result, html, _ = reported(perfdb, ctx, collected(ctx, records(5.0), monitors=spool))
    assert "cpu_cores" not in result.summary.resources["server"]
    assert result.summary.resources["server"]["rss_bytes"]["max"] == 1000
    assert "CPU of the machine: not measured" in html


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (None, "configs/prices.yaml is missing"),
        (
            "rows: [{provider: P, instance: I, region: R, kind: cpu, device: D, match: '^no such processor$', "
            "usd_per_hour: 1, source: s, date: '2026-01-01'}]",
            "configs/prices.yaml has no instance with",
        ),
    ],
)
def test_a_price_that_is_missing(
    perfdb: PerfDB, ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: str | None, why: str
) -> None:
    """No price list, or none with this processor: the cost is not known, and why; never 0."""
    if rows is not None:
        (tmp_path / "prices.yaml").write_text(rows)
    with monkeypatch.context() as patch:
        patch.setenv(CONFIG_DIR, str(tmp_path))
        result, html, markdown = reported(perfdb, ctx, collected(ctx, records(5.0)))
    assert result.summary.model_dump()["cost_usd_per_1k"] is None
    for text in (html, markdown):
        assert f"cost: not known ({why}" in text
