"""Runs of one submission that differ in where their data lies."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.contracts.verdict import Reason, Verdict
from inferbench_tasks.perfdb.documents import DeviceInfo, Provenance
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.measured import Diagnosis
from inferbench_tasks.training.diagnosis.of_run import with_stalls
from inferbench_tasks.training.diagnosis.stalls import stalls_of
from inferbench_tasks.training.result import EngineInfo, TrainingResult
from tests.unit.training.report.results import view

PLACES = (("device", "warm"), ("memory", "warm"), ("disk", "warm"), ("disk", "cold"))


def run(where: str, read: str, factor: int, **more: Any) -> TrainingResult:
    """A step of ``factor`` times 12 ms with its data there."""
    job = {"data": {"kind": "jpeg", "where": where, "read": read}, "train": {"batch_size": 8}, **more}
    return view(f"{where}-{read}", factor).result.model_copy(
        update={"provenance": Provenance(**{"job": job}), "device": DeviceInfo(kind="cpu", name="x", cores=2)}
    )


RUNS = [run(*place, factor) for factor, place in zip((1, 2, 3, 5), PLACES, strict=True)]


def test_each_stall_is_the_difference_of_two_of_them() -> None:
    """12 ms on the device, 24 in memory, 36 warm, 60 cold; whichever of them is asked for."""
    for asked in RUNS:
        stalls = stalls_of(asked, RUNS)
        assert stalls is not None and stalls.computing_ms == 12.0
        assert {name: of.mean for name, of in stalls.of.items()} == {
            "batches": 12.0, "preparing": 12.0, "fetching": 24.0,
        }  # fmt: skip
    stalls = stalls_of(RUNS[0], RUNS)
    assert stalls is not None
    document = stalls.document()
    assert document["runs"]["cold"] == "x-1.disk-cold" and document["fetching_ms"]["mean"] == 24.0
    assert "computing 12, batches 12" in stalls.sentence() and "4 runs" in stalls.sentence()


def test_runs_of_other_work_or_that_do_not_count_are_no_siblings() -> None:
    """Another batch; an invalid one; alone there is nothing to subtract."""
    other = run("memory", "warm", 2, train={"batch_size": 16})
    bad = run("device", "warm", 1).model_copy(
        update={"verdict": Verdict.judged([Reason(check="steps", text="too few")])}
    )
    assert stalls_of(RUNS[2], [RUNS[2], other, bad]) is None
    assert stalls_of(bad, RUNS) is None
    expecting = run("memory", "warm", 2, expected={"samples_per_s": 5.0, "source": "x"})
    assert stalls_of(RUNS[2], [expecting]) is not None, "what is expected is no other work"


def test_the_differences_are_evidence_of_what_speaks_of_loading() -> None:
    """Of the others they are none; the whole stands beside the causes."""
    causes = [Cause(rule=rule, kind="cause", sentence="s", evidence=["e"]) for rule in ("fetch", "threads")]
    made = with_stalls(Diagnosis(run_id="a", sentence="s", causes=causes), stalls_of(RUNS[0], RUNS))
    fetch, threads = made.causes
    assert fetch.evidence[1].startswith("By differences of 4 runs") and threads.evidence == ["e"]
    assert made.stalls is not None and made.stalls["computing_ms"] == 12.0
    plain = Diagnosis(run_id="a", sentence="s", causes=causes)
    assert with_stalls(plain, None) is plain


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster": "b"},
        {"extensions": {"devices": [{"device_id": "d2", "host": "h"}]}},
        {"extensions": {"devices": [{"device_id": "d1", "host": "other"}]}},
        {"engine": EngineInfo(kind="torchrun", strategy="ddp", processes=1, threads=1, version="2.7")},
        {"device": DeviceInfo(kind="gpu", name="x", cores=2)},
    ],
)
def test_runs_elsewhere_or_of_another_torch_are_no_siblings(changes: dict[str, Any]) -> None:
    """What differs then is not where the data lies: cluster, device, host, kind and torch's version have to agree."""
    same: dict[str, Any] = {
        "cluster": "a",
        "extensions": {"devices": [{"device_id": "d1", "host": "h"}]},
        "engine": EngineInfo(kind="torchrun", strategy="ddp", processes=1, threads=1, version="2.8"),
    }
    one, other = (of.model_copy(update=same) for of in RUNS[:2])
    assert stalls_of(one, [one, other]) is not None
    assert stalls_of(one, [one, other.model_copy(update=changes)]) is None


def test_of_runs_that_leased_nothing_the_machine_counts() -> None:
    """Two machines of one kind whose users ran the same submission."""
    one, other = (
        of.model_copy(update={"environment": {"system": {"host": host}}})
        for of, host in zip(RUNS[:2], ("a", "b"), strict=True)
    )
    assert stalls_of(one, [one, other]) is None
    assert stalls_of(one, [one, other.model_copy(update={"environment": one.environment})]) is not None
