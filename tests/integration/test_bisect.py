"""A whole bisection over real commits in a real PerfDB; only the measuring is replaced."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.errors import InputError, LeaseLostError, StageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_stored
from inferbench_tasks.regression.bisect import session as module
from inferbench_tasks.regression.bisect.session import Request, bisect
from inferbench_tasks.regression.bisect.steps import commits
from inferbench_tasks.regression.sides import Side
from inferbench_tasks.running.fence import Fence
from tests.unit.perfdb.builders import result

pytestmark = pytest.mark.integration

YAML = "name: quick\nmodel: {kind: zoo, name: digits}\nload: {arrivals: {kind: poisson, rate_rps: 50}, duration_s: 5}\n"
CULPRIT, BROKEN = 6, 4


@pytest.fixture
def request_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    """Eight commits after the good one; the sixth makes inference slower, the fourth can't be run."""
    repo = tmp_path / "repo"
    repo.mkdir()
    git = ["git", "-C", str(repo), "-c", "user.name=n", "-c", "user.email=n@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    for number in range(9):
        (repo / "quick.yaml").write_text(f"{YAML}description: commit {number}\n")
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", f"{number}"], check=True)
        subprocess.run([*git, "tag", f"v{number}"], check=True)
    side = Side(id="a" * 16, tree=str(tmp_path), python="python")
    monkeypatch.setattr("inferbench_tasks.regression.bisect.build.side_of", lambda *_: side)
    return Request(repo / "quick.yaml", commits(repo, "v0", "v8"), detect=0.05)


class Runs:
    """What ``inferbench run`` would have measured; counts the runs of each commit, and can stop after some."""

    def __init__(self) -> None:
        self.count: Counter[int] = Counter()
        self.rng = np.random.default_rng(5)
        self.cores = 4
        self.verdict = "valid"

    def __call__(
        self, file: Path, side: Side, db: PerfDB, data_dir: Path, variables: Any
    ) -> list[dict[str, str]]:
        number = int(file.read_text().split()[-1])
        if number == BROKEN:
            raise StageError("it does not start")
        self.count[number] += 1
        stages = {"queue": 1.0, "inference": 6.0 if number >= CULPRIT else 5.0, "transmit": 3.0}
        stages = {name: value * float(self.rng.normal(1, 0.01)) for name, value in stages.items()}
        run_id = f"run-{self.count.total()}.000"
        summary = {
            "e2e_latency_ms": {"p50": sum(stages.values())},
            "stages_ms": {name: {"mean": value} for name, value in stages.items()},
        }
        device = {"kind": "cpu", "name": "Example CPU", "cores": self.cores}
        db.collection("results").insert_one(to_stored(result(run_id, summary=summary, device=device)))
        return [{"run_id": run_id, "verdict": self.verdict}]


def test_a_bisection_over_commits_is_stopped_goes_on_and_names_the_commit(
    request_of: Request, perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """15.25: what was measured before the stop is not measured again; a commit that does not start is skipped."""
    runs = Runs()
    monkeypatch.setattr(module, "one_run", runs)
    state, answer = bisect(request_of, perfdb, tmp_path, lambda text: None, lambda: runs.count.total() >= 21)
    assert answer.kind == "open" and runs.count.total() == 21
    said: list[str] = []
    state, answer = bisect(request_of, perfdb, tmp_path, said.append)
    assert said[0].startswith("going on: 21 run(s) are measured")
    assert (answer.kind, answer.bad, answer.stage) == ("culprit", CULPRIT, "inference")
    assert answer.effect is not None and answer.effect.low <= np.log(10 / 9) <= answer.effect.high
    assert list(state.skipped.values()) == ["it does not start"]
    recorded = {run.run_id for comparison in state.comparisons for run in comparison.runs}
    before = runs.count.total()
    assert len(recorded) == before
    assert bisect(request_of, perfdb, tmp_path, said.append)[1] == answer and runs.count.total() == before


def test_steps_of_two_machines_are_not_compared(
    request_of: Request, perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another number of cores in the middle of a bisection is refused; what was measured stays."""
    runs = Runs()
    monkeypatch.setattr(module, "one_run", runs)
    bisect(request_of, perfdb, tmp_path, lambda text: None, lambda: runs.count.total() >= 3)
    runs.cores = 8
    with pytest.raises(InputError, match="two machines"):
        bisect(request_of, perfdb, tmp_path, lambda text: None)


def test_a_machine_that_is_not_fit_stops_a_bisection_and_spoils_nothing(
    request_of: Request, perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """15.25: disturbed runs count for nothing; after too many it ends, and the same command goes on."""
    runs = Runs()
    monkeypatch.setattr(module, "one_run", runs)
    runs.verdict = "disturbed: the hypervisor took 30.0% of the machine's CPU time (at most 5%)"
    for _ in range(2):
        with pytest.raises(StageError, match="too many runs are not valid"):
            bisect(request_of, perfdb, tmp_path, lambda text: None)
    runs.verdict = "valid"
    assert bisect(request_of, perfdb, tmp_path, lambda text: None)[1].bad == CULPRIT


@pytest.mark.parametrize("ended", [False, True], ids=["it ends whole", "its server is ended"])
def test_a_bisection_that_lost_its_device_ends_and_goes_on_where_it_holds_one(
    request_of: Request, perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """The run that was under way counts for nothing, and is no reason to skip its step; no other is begun."""
    runs, cluster = Runs(), Cluster(perfdb)
    cluster.register(Device(device_id="a", device_type="cpu", name="a CPU", host="h", cores=(0,)))

    def granted() -> Fence:
        assert cluster.grant("a", "bisect|r|000", spec={}, run_id="", now_s=0.0, est_end_s=1.0)
        return Fence("a", "bisect|r|000")

    lease = granted().enter(perfdb).lease

    def one_run(*given: Any) -> list[dict[str, str]]:
        rows = runs(*given)
        if runs.count.total() == 6:
            device = cluster.get("a")
            assert device is not None and device.lease is not None
            assert cluster.release("a", device.lease.token, "lost")
            if ended:
                raise StageError("the server is gone")
        return rows

    monkeypatch.setattr(module, "one_run", one_run)
    with pytest.raises(LeaseLostError, match="bisection of quick does not hold a any more, so it ends"):
        bisect(request_of, perfdb, tmp_path, lambda text: None, lease=lease)
    with pytest.raises(LeaseLostError):
        bisect(request_of, perfdb, tmp_path, lambda text: None, lease=lease)
    assert runs.count.total() == 6
    said: list[str] = []
    state, answer = bisect(request_of, perfdb, tmp_path, said.append, lease=granted().enter(perfdb).lease)
    assert said[0].startswith("going on: 5 run(s) are measured") and answer.bad == CULPRIT
    assert list(state.skipped.values()) == ["it does not start"]
