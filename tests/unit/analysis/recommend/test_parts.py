"""Which jobs are parts of one evaluation, and so one configuration by its speed; the rest is tried on a real PerfDB."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.devices.alike import alike
from inferbench_tasks.analysis.recommend.candidates import Candidate, describe
from inferbench_tasks.analysis.recommend.lines import line_of
from inferbench_tasks.analysis.recommend.parts import asked_but_for_part
from inferbench_tasks.analysis.recommend.recommender import choose
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.schema import JobSpec
from tests.unit.analysis.builders import job_spec
from tests.unit.analysis.devices.builders import CPU, run
from tests.unit.perfdb.builders import result

JOB: dict[str, Any] = {
    "name": "x", "block": 1, "serve": {"threads": 1}, "evaluate": {"dataset": "d", "part": "1/8"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"evaluate": {"dataset": "d", "part": "8/8"}}, True),
        ({"evaluate": {"dataset": "d", "part": "1/2"}}, True),
        ({"name": "y", "block": 2, "tags": ["z"]}, True),
        ({"serve": {"threads": 2}}, False),
        ({"evaluate": {"dataset": "other", "part": "1/8"}}, False),
    ],
)
def test_jobs_that_differ_in_their_part_alone_are_one(changes: dict[str, Any], same: bool) -> None:
    """Whichever part it is, of however many, whatever it is called, and in which block it was run; other threads or
    other samples are another job."""
    assert (asked_but_for_part(JOB | changes) == asked_but_for_part(JOB)) is same


def test_a_row_says_which_part_its_run_is() -> None:
    """That of a run that asked all of its samples, or none, says nothing."""
    parts = []
    for job in (JOB, {**JOB, "evaluate": None}, {}):
        document = result(provenance={"job": job}).model_dump()
        parts.append(line_of(document, FIGURES["p99_ms"], ()).row(1, None, "")["part"])
    assert parts == ["1/8", None, None]


def asked(**changes: Any) -> dict[str, Any]:
    """What is stored of the job of a part."""
    return job_spec(**{"evaluate__part": "1/3", **changes}).model_dump(mode="json")


def before_an_upgrade(job: dict[str, Any]) -> dict[str, Any]:
    """As a version stored it that lacked the newer fields of the load and of the evaluation."""
    newer = {"load": JobSpec.newer.keys() | {"load.wait_for_quiet_s"}, "evaluate": {"evaluate.vary"}}
    return job | {
        group: {name: value for name, value in job[group].items() if f"{group}.{name}" not in left_out}
        for group, left_out in newer.items()
    }


@pytest.mark.parametrize(
    "again",
    [
        before_an_upgrade(asked(evaluate__part="2/3")),
        asked(evaluate__part="2/3", load__wait_for_quiet_s=7.0),
        asked(evaluate__part="2/3", serve__ready_timeout_s=120.0),
        {**asked(evaluate__part="2/3"), "slo": {"p99_ms": 20}},
    ],
    ids=["before an upgrade", "another patience", "a default spelled out", "an objective without a point"],
)
def test_a_part_that_is_run_again_is_of_the_same_configuration(again: dict[str, Any]) -> None:
    """What a job's digest leaves out makes no configuration of its own either: the key is the digest of the job that
    asks all samples, so that a run of all of them is of it, too."""
    whole = job_spec(evaluate={})
    assert asked_but_for_part(again) == asked_but_for_part(asked()) == job_digest(whole)
    assert asked_but_for_part({**again, "serve": {"threads": 2}}) != job_digest(whole)


def served(part: str, latency_ms: float, threads: int = 1) -> dict[str, Any]:
    """A result of that part."""
    job = job_spec(evaluate__part=part, serve__threads=threads)
    return result(
        f"{threads}-of-{part[0]}",
        submission={"name": "x", "digest": job_digest(job)},
        summary={"e2e_latency_ms": {"p50": latency_ms}, "throughput_rps": 9.0},
        provenance={"job": job.model_dump(mode="json")},
    ).model_dump()


THREE = [served("1/3", 10.0), served("2/3", 12.0), served("3/3", 11.0)]


def test_parts_at_hand_are_runs_of_one_configuration() -> None:
    """Of 10, 12 and 11 ms the configuration has the mean, 11 ms, and not the luckiest of three; what it is called
    begins with the digest of a job that was run. By a measure of answers each part stands for itself."""
    found = choose(THREE, "p50_ms", [])
    assert (found.candidates, [row["p50_ms"] for row in found.top]) == (1, [11.0])
    assert found.top[0]["runs"] == 3
    two = choose([*THREE, served("1/3", 11.5, 2)], "p50_ms", [])
    assert {key.partition(" ")[0] for key in two.reruns} == {
        THREE[0]["submission"]["digest"],
        served("1/3", 1.0, 2)["submission"]["digest"],
    }
    assert choose(THREE, "top1_ratio", []).candidates == 3


def test_a_configuration_of_several_parts_is_not_called_after_one() -> None:
    """Two servers with other threads and the very same words otherwise: of all parts of the one nothing is said of a
    part, of the only part of the other it is."""
    several, one = Candidate("a", THREE), Candidate("b", [served("1/3", 11.5, 2)])
    (mine, its) = (text.partition("rate_rps 80, ")[2] for text in describe([several, one]).values())
    assert (mine, its) == ("threads 1", "threads 2, part 1/3")


def test_parts_are_runs_of_one_configuration_of_their_device() -> None:
    """Where devices are compared: three parts at 100, 120 and 110 samples/s are one configuration with their mean."""
    documents = [
        run(f"r{at}", CPU, 10.0, rate, provenance={"job": asked(evaluate__part=f"{at}/3")})
        | {"submission": {"name": "x", "digest": f"{at}" * 64}}
        for at, rate in ((1, 100.0), (2, 120.0), (3, 110.0))
    ]
    ((found,),) = (each for devices in alike(documents).values() for each in devices.values())
    assert (found.runs, found.mean("throughput_samples_per_s")) == (3, 110.0)
