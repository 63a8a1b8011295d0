"""Which devices run the short epoch together, and that it is one job on all of a kind."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cli.training_fleet_run import usable
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.errors import InputError
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.sweep import expand
from inferbench_tasks.training.fleet.epoch import groups, submission
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.statistics import LEAST_STEPS


def devices(count: int, host: str = "a", kind: str = "cpu") -> list[Device]:
    return [
        Device(device_id=f"{host}.{kind}-{at}", device_type=kind, name="n", host=host) for at in range(count)
    ]


def test_each_device_alone_then_pairs_of_a_host_then_all_of_it() -> None:
    """All pairs of few, a ring of many; none across hosts or kinds."""
    few = [*devices(3), *devices(2, "b"), *devices(1, "a", "t4")]
    assert Counter(map(len, groups(few, links=False))) == {1: 6}
    assert Counter(map(len, groups(few, links=True))) == {1: 6, 2: 3 + 1, 3: 1}
    assert all(len({(one.host, one.device_type) for one in group}) == 1 for group in groups(few, links=True))
    many = groups(devices(8), links=True)
    assert Counter(map(len, many)) == {1: 8, 2: 8, 8: 1}
    assert {one.device_id for group in many if len(group) == 2 for one in group} == {
        f"a.cpu-{n}" for n in range(8)
    }


def test_it_is_the_same_job_on_every_device_of_a_kind(tmp_path: Path) -> None:
    """The devices' names are labels: one digest, so that its runs can be set beside each other."""

    def job(*group: Device) -> object:
        file = tmp_path / "x.yaml"
        file.write_text(yaml.safe_dump(submission(group)))
        (job,) = expand(read_submission(file, INSTALLED))
        assert job.spec.on_devices == tuple(one.device_id for one in group)
        return job_digest(job.spec), job.spec.needed_devices(), str(job.spec.needed_device())

    one, other, *_ = devices(3)
    assert job(one) == job(other) != job(one, other)
    assert job(one, other) == job(other, one) and job(one, other)[1:] == (2, "cpu")  # type: ignore[index]
    assert job(devices(1, kind="t4")[0])[2] == "gpu:t4"  # type: ignore[index]


@pytest.mark.parametrize(("count", "steps"), [(1, 37), (2, 16), (3, 9), (4, 37), (8, 37), (64, 37)])
def test_a_group_of_any_size_has_steps_enough_for_figures(count: int, steps: int, tmp_path: Path) -> None:
    """Five rounds of whole steps behind five of the warm-up, 30 together at least: 1,347 digits are 42 batches of 32 on
    one device, 21 on each of two and 14 of three; of four they would be 10, of which 25 are too few, and of eight none.
    """
    file = tmp_path / "x.yaml"
    file.write_text(yaml.safe_dump(submission(devices(count))))
    (job,) = expand(read_submission(file, INSTALLED))
    assert isinstance(job.spec, TrainingJob)
    assert job.spec.measured_steps == 5 * steps >= LEAST_STEPS
    assert job.spec.data.kind == ("digits" if count < 4 else "dummy")


def test_more_devices_than_a_training_may_have_are_tried_in_pairs_alone() -> None:
    """65 of one host: 65 neighbours in a ring, and no training that would be refused behind all others."""
    assert Counter(map(len, groups(devices(65), links=True))) == {1: 65, 2: 65}


def test_quarantined_devices_and_those_without_worker_are_left_out() -> None:
    """They are named; without any other there is an error, before anything is submitted."""
    fit, away, sick = devices(3)
    away = away.model_copy(update={"age_s": 100.0})
    sick = sick.model_copy(update={"health": "quarantined", "reason": "too hot"})
    assert usable([fit, away, sick], "") == [fit]
    for cluster, there in (("", [away, sick]), ("other", [fit])):
        with pytest.raises(InputError, match="no device.* that could run an epoch"):
            usable(there, cluster)
