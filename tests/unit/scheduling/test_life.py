"""One life of a scheduler by hand: what is compared, and what was load."""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks.scheduling.decisions import Place
from inferbench_tasks.scheduling.eventlog import EventLog
from inferbench_tasks.scheduling.events import Finished, InfraFailed, LeaseGranted, NodeUp, Started, Submitted
from inferbench_tasks.scheduling.life import lived
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.scheduling.policies import POLICIES


def job(name: str, submit_s: float) -> QueuedJob:
    return QueuedJob(name, "team", name, submit_s, 3.0, 1e6, frozenset({"any"}))


def test_each_job_counts_for_what_the_log_has_of_it(tmp_path: Path) -> None:
    """a waits 2 s and holds its device 3; b loses a run and ends 9 s after its submission; c fails after 1; d runs
    since an earlier life, 2 s of it here; e still runs for 1 s at the end.
    """
    path, policy = tmp_path / "log.jsonl", POLICIES.load("qa_sjf")()
    with path.open("w") as file:
        log = EventLog(file, policy.name, policy.params)
        log.event(NodeUp(0.0, "n", "any", 2))
        log.event(Submitted(0.5, job("d", -50.0)))
        log.event(LeaseGranted(0.5, "d", "n", (1,), 9))
        log.event(Finished(2.5, "d", True, 9))
        for name in "abce":
            log.event(Submitted(1.0, job(name, 1.0)))
        for name, start_s, token, end in (
            ("a", 3.0, 1, Finished(6.0, "a", True, 1)), ("b", 6.0, 2, InfraFailed(6.5, "b", token=2)),
            ("b", 7.0, 3, Finished(10.0, "b", True, 3)), ("c", 10.0, 4, Finished(11.0, "c", False, 4)),
            ("e", 11.0, 5, Started(12.0, "e", 5)),
        ):  # fmt: skip
            log.decided(start_s, [Place(name, "n", (0,), start_s + 3, "")])
            log.event(LeaseGranted(start_s, name, "n", (0,), token))
            log.event(end)
    life = lived(path)
    assert life.real.policy == "qa_sjf"
    jobs = [(one.job_id, one.jct_s, one.wait_s, one.runs) for one in life.real.jobs]
    assert jobs == [("a", 5.0, 2.0, 1), ("b", 9.0, 6.0, 2)]
    load = [(one.spec.job_id, one.spec.submit_s, one.actual_s) for one in life.trace.jobs]
    assert load == [("d", 0.5, 2.0), ("a", 1.0, 3.0), ("b", 1.0, 3.0), ("c", 1.0, 1.0), ("e", 1.0, 1.0)]
    assert (life.failed, life.earlier, life.lost) == (2, 1, 1)
    assert life.compared == {"a", "b"}
