"""MLPerf's LoadGen over our transport: its four scenarios, and its agreement with our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.extras import missing
from inferbench_tasks.loadgen.mlperf import MlperfSettings, run_mlperf
from inferbench_tasks.loadgen.null_server import null_server
from inferbench_tasks.loadgen.records import column, is_ok, read_samples
from tests.load_servers import ANSWER_BYTES, load_plan, run_load

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(missing("mlperf")), reason="the extra mlperf is not installed"),
]
RATE = 200.0


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("scenario", ["single_stream", "multi_stream", "server", "offline"])
def test_loadgen_issues_and_every_request_is_recorded(tmp_path: Path, scenario: Any, protocol: str) -> None:
    """Its logs are kept, its verdict is read, and its count of samples is ours."""
    with null_server(protocol, ANSWER_BYTES) as where:
        plan = load_plan(tmp_path, where, arrivals={"kind": "closed_loop", "concurrency": 8})
        settings = MlperfSettings(
            scenario=scenario, target_qps=RATE, min_duration_s=0.5, min_queries=50, samples_per_query=4
        )
        result = run_mlperf(plan, settings, tmp_path / "samples.parquet")
    assert result.errors == 0
    assert result.requests >= 50
    assert result.summary["Mode"] == "PerformanceOnly"
    assert result.summary["Result is"] in ("VALID", "INVALID")
    assert result.valid == (result.summary["Result is"] == "VALID")
    assert Path(result.detail_path).stat().st_size > 0
    table = read_samples(Path(result.samples_path))
    assert is_ok(table).all()
    assert len(set(column(table, "request_id").tolist())) == result.requests


def test_loadgens_server_scenario_and_ours_agree(tmp_path: Path) -> None:
    """The same server, the same rate: both send Poisson arrivals, and neither sees another server."""
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    for folder in (theirs, mine):
        folder.mkdir()
    with null_server("http", ANSWER_BYTES) as where:
        plan = load_plan(theirs, where, arrivals={"kind": "closed_loop", "concurrency": 8})
        settings = MlperfSettings(scenario="server", target_qps=RATE, min_duration_s=4.0, min_queries=600)
        result = run_mlperf(plan, settings, theirs / "samples.parquet")
        _, outcome = run_load(mine, where, arrivals={"kind": "server", "rate_rps": RATE}, duration_s=4.0)

    def law(table: Any) -> tuple[float, float]:
        """The mean rate, and the coefficient of variation of the gaps (1 for Poisson)."""
        gaps = np.diff(np.sort(column(table, "intended_ns"))) / 1e9
        return 1 / float(gaps.mean()), float(gaps.std() / gaps.mean())

    for table in (read_samples(Path(result.samples_path)), outcome.table()):
        rate, variation = law(table)
        assert is_ok(table).all()
        assert rate == pytest.approx(RATE, rel=0.15)
        assert variation == pytest.approx(1.0, abs=0.15)
