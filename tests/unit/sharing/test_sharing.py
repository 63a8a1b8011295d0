"""A share becomes jobs; its methods say what they need; slow-downs come with their intervals."""

from __future__ import annotations

import math
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from inferbench_tasks.analysis.report.slowdown import Estimate, sharing_table
from inferbench_tasks.contracts.device import CPU, DeviceSpec
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.controller import Applied
from inferbench_tasks.loadgen.evidence import ShardUsage
from inferbench_tasks.loadgen.outcome import Outcome
from inferbench_tasks.loadgen.plan import LoadPlan, Segment
from inferbench_tasks.sharing.base import SHARINGS, on_cores, placed
from inferbench_tasks.stages.judgement import judge
from inferbench_tasks.stages.neighbours import Neighbour, job_of
from inferbench_tasks.submission.schema import JobSpec, Submission
from inferbench_tasks.submission.sweep import expand
from tests.samples import samples_table
from tests.unit.analysis.builders import SECOND, records, view

SUBMISSION = {
    "name": "pair",
    "model": {"kind": "zoo", "name": "digits"},
    "load": {"arrivals": {"kind": "closed_loop", "concurrency": 1}, "duration_s": 5.0},
    "share": {
        "cores": [0],
        "beside": [
            {
                "model": {"kind": "canonical", "family": "mlp"},
                "load": {"arrivals": {"kind": "poisson", "rate_rps": 9.0}},
                "cores": [1],
            }
        ],
    },
}


def submission(**share: object) -> Submission:
    return Submission.model_validate({**SUBMISSION, "share": {**SUBMISSION["share"], **share}})  # type: ignore[dict-item]


def test_each_model_runs_alone_and_beside_the_other() -> None:
    """Two models make four jobs; each has its own model, load and cores, and the other as its neighbour."""
    jobs = [job.spec for job in expand(submission())]
    shares = [job.share for job in jobs if job.share]
    assert [(s.member, s.cores, len(s.beside)) for s in shares] == [
        (0, (0,), 0), (1, (1,), 0), (0, (0,), 1), (1, (1,), 1)
    ]  # fmt: skip
    assert [job.model.kind for job in jobs] == ["zoo", "canonical", "zoo", "canonical"]
    assert [job.traffic.arrivals.kind for job in jobs] == ["closed_loop", "poisson", "closed_loop", "poisson"]
    assert shares[3].beside[0].model == {"kind": "zoo", "name": "digits"}
    assert shares[3].beside[0].cores == (0,)


def test_a_job_of_a_share_can_be_run_again_by_itself() -> None:
    """As a submission of its own it is that one job again, not four."""
    for job in expand(submission()):
        again = expand(Submission.model_validate_json(job.spec.model_dump_json()))
        assert [other.digest for other in again] == [job.digest]


def test_a_neighbour_is_a_job_that_lasts_longer() -> None:
    """It has its own sections, and its load goes on for as long as the measured one needs it."""
    job = expand(submission())[2].spec
    assert job.share is not None
    neighbour = job_of(job, job.share.beside[0])
    assert neighbour.model.kind == "canonical" and neighbour.traffic.arrivals.kind == "poisson"
    assert neighbour.share is not None and neighbour.share.cores == (1,) and not neighbour.share.beside
    assert neighbour.traffic.duration_s > job.traffic.warmup_s + job.traffic.duration_s + 60


def test_without_a_driver_mps_says_so(tmp_path: Path) -> None:
    """Where there is no NVIDIA driver, and for a CPU, the message says what is missing and what to do."""
    mps = SHARINGS.load("mps")
    assert "use method: colocate" in (mps.unavailable(CPU) or "")
    if not os.path.exists("/dev/nvidiactl"):
        assert "no NVIDIA driver" in (mps.unavailable(DeviceSpec("gpu")) or "")
    job = JobSpec.model_validate({**SUBMISSION, "share": {"method": "mps"}})
    with pytest.raises(InputError, match="share.method: mps can't be used here: it shares NVIDIA GPUs"):
        with placed(job, tmp_path):
            raise AssertionError("nothing may start")


def test_mps_is_started_bounded_and_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the control program (there is no GPU here): the daemon's folders, the bound, the end."""
    fake = tmp_path / "bin" / "nvidia-cuda-mps-control"
    fake.parent.mkdir()
    fake.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = -d ]; then touch "$CUDA_MPS_PIPE_DIRECTORY/control"; exit 0; fi\n'
        'read order; echo "$order" >> "$CUDA_MPS_LOG_DIRECTORY/orders"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    kind = SHARINGS.load("mps")
    monkeypatch.setattr(kind, "unavailable", classmethod(lambda cls, device: None))
    share = {"method": "mps", "percentage": 40}
    job = JobSpec.model_validate({**SUBMISSION, "serve": {"device": "gpu"}, "share": share})
    with placed(job, tmp_path):
        assert os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "40"
        assert os.environ["CUDA_MPS_PIPE_DIRECTORY"] == str(tmp_path / "mps" / "pipe")
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in os.environ
    kind(tmp_path).stop()
    orders = (tmp_path / "mps" / "log" / "orders").read_text().splitlines()
    assert orders[0] == "get_server_list" and orders[-1].startswith("quit")
    assert not (tmp_path / "mps" / "pipe").exists()


def test_a_server_gets_its_cores_and_the_client_keeps_its_own() -> None:
    """Within, this thread runs on the given core only; cores that are not there are refused."""
    before = os.sched_getaffinity(0)
    one = min(before)
    with on_cores((one,)):
        assert os.sched_getaffinity(0) == {one}
    assert os.sched_getaffinity(0) == before
    with pytest.raises(InputError, match=r"share.cores: \[4095\] can't be used here"):
        with on_cores((4095,)):
            raise AssertionError("not here")


def test_a_ratios_interval_comes_from_both_sides() -> None:
    """Twice as slow, each side known to 10%: about 14% around 2; without an interval there is none."""
    ratio = Estimate(20, 20 / 1.1, 20 * 1.1).over(Estimate(10, 10 / 1.1, 10 * 1.1))
    assert ratio is not None and ratio.low is not None and ratio.high is not None
    assert ratio.value == 2 and ratio.high == pytest.approx(2 * math.exp(math.sqrt(2) * math.log(1.1)))
    assert ratio.low == pytest.approx(4 / ratio.high)
    assert Estimate(20).over(Estimate(10, 9, 11)) == Estimate(2)
    assert Estimate(20).over(Estimate(0)) is None


class FakeNeighbour(Neighbour):
    """FAKE: a neighbour whose load is over, with these records; nothing is served."""

    def __init__(self, folder: Path, table: pa.Table, offsets_ns: NDArray[np.int64], stall_ms: float) -> None:
        np.save(folder / "offsets.npy", offsets_ns)
        spec = Segment(kind="open", start_ns=0, end_ns=130 * SECOND, offsets_path=str(folder / "offsets.npy"))
        endpoint = Endpoint(protocol="http", host="127.0.0.1", port=1, model_name="mlp")
        self._plan = LoadPlan(
            folder=str(folder), endpoint=endpoint, inputs_path="", segments=(spec,), connections=1,
            initial_connections=1, measure_start_ns=0, measure_end_ns=20 * SECOND, timeout_ns=SECOND,
        )  # fmt: skip
        self._inp = SimpleNamespace(  # type: ignore[assignment]
            job=SimpleNamespace(share=None),
            generate=SimpleNamespace(model=SimpleNamespace(name="mlp")),
            serve=SimpleNamespace(backend=SimpleNamespace(label="Fake")),
        )
        self._samples = folder / "samples.parquet"
        pq.write_table(table, self._samples)
        stall_ns = int(stall_ms * 1e6)
        usage = ShardUsage(
            shard=0, cpu_s=1.0, wall_s=20.0, max_stall_ns=stall_ns,
            stalls_ns=((9 * SECOND, 9 * SECOND + stall_ns),), stalled_ns=stall_ns,
        )  # fmt: skip
        applied = Applied(0, 20 * SECOND, (), (usage,), cancelled=True)
        self._outcome = Outcome(self._samples, 0, 20 * SECOND, 0, len(table), applied)
        self._problem = None


def beside(folder: Path, stall_ms: float = 5.0, **changed: Any) -> dict[str, Any]:
    """What a neighbour of 50 requests/s reports for the seconds 5 to 15; ``changed``: status, sent_ns by index."""
    intended = np.arange(0, 20 * SECOND, SECOND // 50)
    columns = {"sent_ns": intended + 20_000, "done_ns": intended + 5_000_000}
    status = np.array(["ok"] * len(intended), dtype=object)
    for index, text in changed.get("status", {}).items():
        status[index] = text
        columns["done_ns"][index] = columns["sent_ns"][index] + SECOND if text == "timeout" else -1
    for index in changed.get("unsent", ()):
        columns["sent_ns"][index] = -1
    table = samples_table({"intended_ns": intended, "status": status.tolist(), **columns})
    return FakeNeighbour(folder, table, intended, stall_ms).figures(5 * SECOND, 15 * SECOND)


def test_a_neighbour_with_its_load_leaves_the_verdict_valid(tmp_path: Path) -> None:
    """Judged by the window of the measured job alone: failures before and after it, and its sudden end, don't count."""
    outside = dict.fromkeys((*range(100), *range(800, 1000)), "timeout")
    found = beside(tmp_path, status=outside | {749: "cancelled"})  # in flight when it was ended
    assert found["certificate"]["reasons"] == []
    assert found["error_ratio"] == 0 and found["throughput_rps"] == pytest.approx(50, rel=0.01)
    assert judge({"valid": True, "reasons": []}, None, {}, [found]).valid


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ({"status": dict.fromkeys(range(300, 700), "timeout")}, "400 of 500 requests failed"),
        (
            {"status": dict.fromkeys(range(300, 310), "dropped"), "unsent": range(300, 310)},
            "10 of 500 requests were never sent",
        ),
        ({"stall_ms": 900.0}, "was held up for 900.0 ms"),
        ({"status": dict.fromkeys(range(400, 1000), "cancelled")}, "350 of 500 requests failed"),
    ],
)
def test_a_neighbour_without_its_load_makes_the_verdict_invalid(
    tmp_path: Path, case: dict[str, Any], words: str
) -> None:
    """Time-outs, drops, a stalled sender, a server that hangs: each is a reason, with the neighbour's name."""
    verdict = judge({"valid": True, "reasons": []}, None, {}, [beside(tmp_path, **case)])
    assert str(verdict).startswith("invalid: the neighbour mlp: ") and words in str(verdict)
    assert {reason.group for reason in verdict.reasons} == {"neighbour"}
    assert all(reason.figure is not None and reason.bound is not None for reason in verdict.reasons)


def test_the_report_tells_what_the_neighbours_loads_were() -> None:
    """Throughput and share of failures of each neighbour stand in the table, and what its intervals do not have."""
    alone = {"share": {"method": "colocate"}}
    member = {"model": {"kind": "canonical", "family": "mlp"}}
    others = [{"model": "mlp", "throughput_rps": 48.5, "error_ratio": 0.025}]
    window = {"start_ns": 2 * SECOND, "end_ns": 10 * SECOND}
    views = [
        view(records(), "run.000", job=alone),
        view(
            records(9.0), "run.001", job={"share": {"method": "colocate", "beside": [member]}},
            extensions={"measured_window": window, "sharing": {"neighbours": others}},
        ),
    ]  # fmt: skip
    [table] = sharing_table(views)
    row = dict(zip(table["head"], table["rows"][0], strict=True))
    assert row["the others' loads"] == "mlp 48.5/s, 2.50% failed"
    assert "from one run to the next, about 5% on a quiet one, is not in them" in table["note"]


def test_a_neighbour_without_cores_may_use_all() -> None:
    """The cores of the submission's own model are its own: a neighbour that names none is not put onto them."""
    beside = [{"model": {"kind": "canonical", "family": "mlp"}}]
    shares = [job.spec.share for job in expand(submission(beside=beside)) if job.spec.share]
    assert [(s.member, s.cores) for s in shares] == [(0, (0,)), (1, ()), (0, (0,)), (1, ())]
    (own_beside, other_beside) = (s.beside[0].cores for s in shares[2:])
    assert (own_beside, other_beside) == ((), (0,))
