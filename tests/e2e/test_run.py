"""One submission, from YAML to a report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.e2e.conftest import ONLY_NOTED, Cli

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
QUICKSTART = Path(__file__).parents[2] / "configs" / "submissions" / "quickstart.yaml"


def quantile(sorted_values: list[int], share: float) -> int:
    """The smallest value that at least ``share`` of the values don't exceed: written anew on purpose."""
    position = share * len(sorted_values)
    rank = int(position) if position == int(position) else int(position) + 1
    return sorted_values[max(rank, 1) - 1]


def recompute(samples: Path, start_ns: int, end_ns: int) -> dict[str, float | None]:
    """p50, p99 (ms) and throughput (requests/s) from the raw records, with nothing of ours.

    Latencies are of the measured requests; throughput counts the good answers that arrived in the window.
    Below 662 requests there is no p99 (MLPerf LoadGen's early-stopping floor at 99% confidence).
    """
    rows = pq.read_table(samples).to_pylist()
    measured = [r for r in rows if r["phase"] == "measure"]
    ok = [r for r in measured if r["status"] == "ok"]
    latencies = sorted(r["done_ns"] - r["intended_ns"] for r in ok)
    inside = [r for r in rows if r["status"] == "ok" and start_ns <= r["done_ns"] < end_ns]
    return {
        "p50": quantile(latencies, 0.50) / 1e6,
        "p99": quantile(latencies, 0.99) / 1e6 if len(latencies) >= 662 else None,
        "throughput": len(inside) / ((end_ns - start_ns) / 1e9),
    }


def test_the_quick_start(cli: Cli) -> None:
    """The quick start runs its DAG by Airflow, prints a table and a report, and its figures are the records'. It needs
    no service but PerfDB's server, which it starts, and leaves no other."""
    done = cli.run_valid("run", str(QUICKSTART))
    for stage in ("generate", "convert", "serve", "load", "collect", "release", "analyze"):
        assert stage in done.stderr
    report = re.search(r"\S+report\.html", done.stdout.replace("\n", ""))
    assert report is not None, done.stdout
    html = Path(report.group()).read_text()
    assert "quickstart" in html
    assert not re.search(r"""(src|href)=["']https?://""", html), "the report must open without internet"
    results = cli.results()[:2]
    assert [r["verdict"] for r in results] == [ONLY_NOTED, ONLY_NOTED]
    for result in results:
        check_figures(cli, result["run"])
    assert cli.left_over() == []
    assert cli.services() == [("mongod", {"127.0.0.1"})]


def check_figures(cli: Cli, run_id: str) -> None:
    result: dict[str, Any] = cli.told("results", "show", run_id)
    load = json.loads((cli.data_dir / "runs" / run_id / "load.json").read_text())
    again = recompute(Path(load["samples_path"]), load["measure_start_ns"], load["measure_end_ns"])
    summary = result["summary"]
    latency = summary["e2e_latency_ms"]
    assert latency["p50"] == pytest.approx(again["p50"], rel=1e-12)
    if again["p99"] is not None and latency["p99"] is None:
        # On a machine that keeps the sender from its core the p99 is the client's, and says so with the same figure.
        assert f"of the p99 of {again['p99']:.2f} ms are the client's own" in latency["withheld"]["p99"]
    else:
        assert latency["p99"] == (again["p99"] and pytest.approx(again["p99"], rel=1e-12))
    assert summary["throughput_rps"] == pytest.approx(again["throughput"], rel=1e-12)
    assert summary["accuracy_ratio"] > 0.9
    assert summary["resources"]


def test_inline_gives_the_same_kind_of_result(warm_cli: Cli) -> None:
    """Without Airflow the same plan gives a result of the same shape."""
    warm_cli.run_valid("run", "--inline", warm_cli.submission())
    result = warm_cli.results()[0]
    assert result["verdict"] == ONLY_NOTED
    check_figures(warm_cli, result["run"])


def test_bad_input_starts_nothing(cli: Cli) -> None:
    """A submission with errors ends with exit code 2, all errors on stderr, and an empty data directory."""
    done = cli.run("run", cli.submission("name: x\nmodel: {kind: zoo, name: digits}\nlod: {}\n"))
    assert done.returncode == 2
    assert "lod" in done.stderr and "load" in done.stderr
    assert "Traceback" not in done.stderr
    assert not cli.data_dir.exists()
