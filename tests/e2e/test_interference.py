"""A foreign process during the measured window: the run doesn't count, and is run once more, once."""

from __future__ import annotations

import json
import signal
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
  wait_for_quiet_s: 0
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


def disturbed(cli: Cli, submission: str) -> subprocess.Popen[str]:
    """The command, with hogs at work whenever a run is measured for the first time; returns at its second attempts."""
    (cli.folder / "disturbed.yaml").write_text(submission)
    child = cli.start("run", "--inline", "disturbed.yaml", INFERBENCH_INTERFERENCE="strict")
    busy: list[subprocess.Popen[bytes]] = []
    measured = False
    try:
        deadline = time.monotonic() + PATIENCE_S
        while child.poll() is None and time.monotonic() < deadline:
            found = list(cli.data_dir.glob("invocations/*/events.jsonl"))
            told = stage_of(found[0]) if found else ""
            if not busy and told.startswith("load measuring"):
                busy, measured = hogs(), True
            if busy and told.startswith("collect"):
                end(busy)
            if measured and told.startswith("analyze"):
                break
            time.sleep(0.02)
    finally:
        end(busy)
    assert measured, f"the load was never measured: {cli.events()[-3:]}"
    return child


def end(busy: list[subprocess.Popen[bytes]]) -> None:
    """All of them; none is left in the list."""
    while busy:
        hog = busy.pop()
        hog.kill()
        hog.wait()


def test_a_disturbed_run_is_quarantined_and_run_once_more(warm_cli: Cli) -> None:
    """The hog is found while the run is measured; both attempts are kept and linked, and there is no third."""
    child = disturbed(warm_cli, SUBMISSION)
    out, err = child.communicate(timeout=PATIENCE_S)
    assert "was disturbed and is run once more" in err, out + err
    (run_id,) = {row["run"] for row in warm_cli.results()}
    with PerfDB.connect(None, warm_cli.data_dir) as db:
        attempts = {r.attempt: r for r in db.find_results({"run_id": run_id})}
        assert sorted(attempts) == [1, 2]
        assert attempts[1].verdict.kind in ("disturbed", "invalid") and attempts[1].verdict.disturbed
        assert {"interference"} <= {reason.group for reason in attempts[1].verdict.reasons}
        assert attempts[2].extensions["repeats"] == {"attempt": 1, "verdict": str(attempts[1].verdict)}
        assert attempts[2].samples != attempts[1].samples
        assert db.samples(run_id, 1).num_rows > 0 and db.samples(run_id, 2).num_rows > 0
    (report,) = warm_cli.data_dir.glob("invocations/*/report.html")
    assert "second attempt" in report.read_text()


@pytest.mark.long
def test_a_signal_during_the_second_attempt_ends_all_of_it(warm_cli: Cli) -> None:
    """Two disturbed jobs, SIGTERM while the first is run once more: it is cancelled, the second is not begun again,
    and no server is left."""
    child = disturbed(warm_cli, SUBMISSION + "sweep:\n  load.batch_size: [1, 2]\n")
    assert child.stderr is not None
    said = ""
    while "is run once more" not in said:
        line = child.stderr.readline()
        assert line, said
        said += line
    time.sleep(1.0)
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 128 + signal.SIGTERM
    assert (said + err).count("is run once more") == 1
    assert warm_cli.left_over() == []
    with PerfDB.connect(None, warm_cli.data_dir) as db:
        attempts = sorted(result.attempt for result in db.find_results())
    assert attempts.count(1) == 2 and attempts.count(2) <= 1
