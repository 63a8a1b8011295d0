"""A foreign process during the measured window: the run doesn't count, and is run once more, once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inferbench_tasks.perfdb.store import PerfDB
from tests.e2e.conftest import PATIENCE_S, Cli

pytestmark = pytest.mark.integration

SUBMISSION = """
name: disturbed
model: {kind: zoo, name: digits}
load:
  arrivals: {kind: poisson, rate_rps: 60}
  duration_s: 3
  warmup_s: 1
"""
HOGS = 4


def hogs() -> list[subprocess.Popen[bytes]]:
    """Busy processes that are neither server nor load."""
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(HOGS)]


def stage_of(events: Path) -> str:
    """What the newest event tells."""
    lines = events.read_text().splitlines()
    last = json.loads(lines[-1]) if lines else {}
    return f"{last.get('stage')} {last.get('text') or last.get('event')}"


def test_a_disturbed_run_is_quarantined_and_run_once_more(cli: Cli) -> None:
    """The hog is found while the run is measured; both attempts are kept and linked, and there is no third."""
    (cli.folder / "disturbed.yaml").write_text(SUBMISSION)
    child = cli.start("run", "--inline", "disturbed.yaml", INFERBENCH_INTERFERENCE="strict")
    busy: list[subprocess.Popen[bytes]] = []
    try:
        deadline = time.monotonic() + PATIENCE_S
        while child.poll() is None and time.monotonic() < deadline:
            found = list(cli.data_dir.glob("invocations/*/events.jsonl"))
            told = stage_of(found[0]) if found else ""
            if not busy and told.startswith("load measuring"):
                busy = hogs()
            if busy and told.startswith("collect"):
                break
            time.sleep(0.02)
    finally:
        for hog in busy:
            hog.kill()
            hog.wait()
    assert busy, f"the load was never measured: {cli.events()[-3:]}"
    out, err = child.communicate(timeout=PATIENCE_S)
    assert "was disturbed and is run once more" in err, out + err
    (run_id,) = {row["run"] for row in cli.results()}
    with PerfDB.connect(None, cli.data_dir) as db:
        attempts = {r.attempt: r for r in db.find_results({"run_id": run_id})}
        assert sorted(attempts) == [1, 2]
        assert attempts[1].verdict.startswith("invalid") and "interference: " in attempts[1].verdict
        assert attempts[2].extensions["repeats"] == {"attempt": 1, "verdict": attempts[1].verdict}
        assert attempts[2].samples != attempts[1].samples
        assert db.samples(run_id, 1).num_rows > 0 and db.samples(run_id, 2).num_rows > 0
    (report,) = cli.data_dir.glob("invocations/*/report.html")
    assert "second attempt" in report.read_text()
