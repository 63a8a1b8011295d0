"""An interleaved sweep with real servers: from the command to its pairs, on whatever machine this is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from inferbench_tasks import settings
from inferbench_tasks.analysis.report.paired import Blocks
from inferbench_tasks.analysis.report.runs import blocks_beside, load_runs
from inferbench_tasks.contracts.verdict import MODE
from inferbench_tasks.perfdb.store import PerfDB
from tests.warm import warm

pytestmark = pytest.mark.integration

#: A lone request waits for others that don't come: 30 ms on top of what it takes, however busy the machine is. The
#: samples are few, for each waits so once more when the answers are checked.
YAML = """\
name: in-turns
model: {kind: zoo, name: digits}
requests: {samples: 16}
load:
  arrivals: {kind: closed_loop, concurrency: 1}
  duration_s: 1.5
  warmup_s: 0.3
  wait_for_quiet_s: 0
sweep:
  serve.batching: [{max_batch_size: 8, max_delay_ms: 20}, {max_batch_size: 8, max_delay_ms: 50}]
  order: interleaved
  blocks: 4
"""


def test_servers_in_turns_are_compared_in_pairs(
    tmp_path: Path, perfdb: PerfDB, perfdb_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Eight runs, each with a server of its own, A B B A ...; the pairs name the configuration that answers sooner."""
    warm(tmp_path / "data", tmp_path_factory)
    file = tmp_path / "in-turns.yaml"
    file.write_text(YAML)
    # The pairs go by disturbed runs too, and none of a sweep in turns is repeated. A sender that others kept from its
    # core makes a run disturbed; where disturbances were noted only, such a run would be invalid.
    env = {name: value for name, value in os.environ.items() if name != MODE}
    env |= {settings.PERFDB_URI: perfdb_uri, settings.DATA_DIR: str(tmp_path / "data")}
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "run", str(file), "--inline", "-o", "json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode in (0, 1), done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) == 8 and len({row["run_id"] for row in rows}) == 8
    views = load_runs(perfdb, [row["run_id"] for row in rows])
    delays = [view.job["serve"]["batching"]["max_delay_ms"] for view in views]
    assert delays == [20, 50, 50, 20] * 2
    assert [view.job["block"] for view in views] == [block for block in range(1, 5) for _ in range(2)]
    blocks = Blocks.among([views[0], *blocks_beside(perfdb, views[:1])])
    assert blocks is not None
    paired = blocks.ratio("p50_ms", blocks.configurations[0], blocks.configurations[1])
    assert paired is not None, blocks.left_out
    assert paired.verdict == "worse" and paired.ci95[0] > 1.2
    report = Path(rows[0]["report"]).read_text()
    assert "Comparison in turns" in report and "measured in turns" in report
