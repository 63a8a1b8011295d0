"""A share becomes jobs; its methods say what they need; slow-downs come with their intervals."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.sharing.base import SHARINGS, on_cores, placed
from inferbench_tasks.sharing.neighbours import job_of
from inferbench_tasks.sharing.slowdown import Estimate
from inferbench_tasks.submission.schema import JobSpec, Submission
from inferbench_tasks.submission.sweep import expand

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
    assert [job.load.arrivals.kind for job in jobs] == ["closed_loop", "poisson", "closed_loop", "poisson"]
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
    assert neighbour.model.kind == "canonical" and neighbour.load.arrivals.kind == "poisson"
    assert neighbour.share is not None and neighbour.share.cores == (1,) and not neighbour.share.beside
    assert neighbour.load.duration_s > job.load.warmup_s + job.load.duration_s + 60


def test_without_a_driver_mps_says_so(tmp_path: Path) -> None:
    """Where there is no NVIDIA driver, and for a CPU, the message says what is missing and what to do."""
    mps = SHARINGS.load("mps")
    assert "use method: colocate" in (mps.unavailable("cpu") or "")
    if not os.path.exists("/dev/nvidiactl"):
        assert "no NVIDIA driver" in (mps.unavailable("gpu") or "")
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
