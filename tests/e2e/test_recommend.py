"""``inferbench recommend --search``: real runs, chosen by the search, kept for the next call."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import Cli

pytestmark = pytest.mark.integration
SPACE = """
name: space
model: {kind: zoo, name: digits}
load:
  arrivals: {kind: closed_loop, concurrency: 2}
  duration_s: 1
  warmup_s: 0.3
  wait_for_quiet_s: 5
slo: {p50_ms: 5000}
sweep:
  load.batch_size: [1, 16]
"""


def test_a_search_runs_what_it_needs_and_nothing_twice(warm_cli: Cli) -> None:
    """Two configurations are run and ranked, batch 16 first; the second call runs neither again."""
    (warm_cli.folder / "space.yaml").write_text(SPACE)
    asked = ("recommend", "--search", "space.yaml", "--settle", "0", "-o", "json")
    done, disturbed = None, False
    until = time.monotonic() + 240
    # A run may be disturbed more often than it is repeated: the next call goes on.
    while time.monotonic() < until:
        try:  # where disturbances are only noted, nothing ranks
            done = warm_cli.run(*asked, INFERBENCH_INTERFERENCE="")
        except subprocess.TimeoutExpired as late:
            disturbed = disturbed or b"disturbed: " in (late.stderr or b"")
            break
        disturbed = disturbed or "disturbed: " in done.stderr
        found = json.loads(done.stdout)
        if done.returncode == 0 and found["candidates"] == 2:
            break
        done = None
    if done is None:
        assert disturbed, "a search that nothing disturbed did not run both"
        pytest.skip("this machine disturbed the runs of four minutes; run it once others have ended")
    assert done.returncode == 0, done.stderr
    assert found["candidates"] == found["fitting"] == 2
    assert "batch 16" in found["top"][0]["configuration"]
    assert found["top"][0]["throughput_samples_per_s"] > found["top"][1]["throughput_samples_per_s"] > 0
    report = re.search(r"report\s+(\S+report\.html)", done.stderr)
    assert report is not None and "batch_size 16" in Path(report[1]).read_text()
    again = warm_cli.run(*asked, INFERBENCH_INTERFERENCE="")
    assert "2 of 2 configuration(s) measured before" in again.stderr
    assert "0 run(s) made" in again.stderr
    assert json.loads(again.stdout)["top"] == found["top"]
    assert warm_cli.left_over() == []
