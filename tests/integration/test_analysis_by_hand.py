"""A run's figures against its raw records, worked out by ``scripts/check_by_hand.py``."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.analysis.report.markdown import make_markdown
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stages import collect
from inferbench_tasks.stages.base import Context
from tests.integration.test_analysis import stage_input

pytestmark = pytest.mark.integration
SCRIPT = Path(__file__).parents[2] / "scripts" / "check_by_hand.py"


@pytest.fixture(scope="module")
def script() -> Any:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("check_by_hand", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_figures_of_a_result_are_those_of_its_records(
    perfdb: PerfDB, data_dir: Path, script: Any
) -> None:
    """Mean, p50, p95, p99, both throughputs and the share of errors agree; the Markdown report shows them."""
    ctx = Context(data_dir=data_dir, perfdb_uri=perfdb.uri)
    collect.run(stage_input(ctx), ctx)
    rows = script.compare(perfdb, "inv.000")
    assert len(rows) == 7
    assert [path for path, _, _, same in rows if not same] == []
    by_hand = {path: mine for path, _, mine, _ in rows}
    assert by_hand["e2e_latency_ms.p99"] > by_hand["e2e_latency_ms.p50"] > 0
    make_markdown(perfdb, ["inv.000"], {"name": "x"}, data_dir / "report.md")
    text = (data_dir / "report.md").read_text()
    for path in ("e2e_latency_ms.mean", "e2e_latency_ms.p50", "e2e_latency_ms.p95", "e2e_latency_ms.p99"):
        assert f"| {by_hand[path]:.3g} |" in text
    assert f"| {by_hand['throughput_rps']:.0f} |" in text


def test_a_wrong_figure_is_found(
    perfdb: PerfDB, data_dir: Path, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result whose p50 is 1% off its records is told apart."""
    ctx = Context(data_dir=data_dir, perfdb_uri=perfdb.uri)
    collect.run(stage_input(ctx), ctx)
    result = perfdb.get_result("inv.000")
    assert result.summary.e2e_latency_ms.p50 is not None
    result.summary.e2e_latency_ms.p50 *= 1.01
    monkeypatch.setattr(PerfDB, "get_result", lambda *_: result)
    assert [row[0] for row in script.compare(perfdb, "inv.000") if not row[3]] == ["e2e_latency_ms.p50"]
