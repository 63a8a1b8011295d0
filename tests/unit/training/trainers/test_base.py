"""Engines by name: which there are, how they start their ranks, and what is refused before anything starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import InputError, UnknownKindError
from inferbench_tasks.registry import Registry
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.training import findings
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.trainers import base
from inferbench_tasks.training.trainers.base import TRAINERS, trainer_of
from inferbench_tasks.training.trainers.torchrun import Torchrun


class Picky(Torchrun):
    """A package's engine that can't do everything."""

    kind = "picky"

    @classmethod
    def problems(cls, job: TrainingJob) -> Iterator[tuple[str, str]]:
        """No loaders."""
        if job.loader.workers:
            yield "loader.workers", "picky loads by itself: leave workers out"


@pytest.fixture
def picky(monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed for one test."""
    ours = {"torchrun": "inferbench_tasks.training.trainers.torchrun:Torchrun"}
    trainers: Registry[type[base.Trainer]] = Registry("trainer", TRAINERS.group, ours)
    point = EntryPoint("picky", f"{__name__}:Picky", TRAINERS.group)
    trainers.__dict__["_plugins"] = {"picky": point}
    for module in (base, findings):
        monkeypatch.setattr(module, "TRAINERS", trainers)


def job(trainer: str = "torchrun", **devices: object) -> TrainingJob:
    return TrainingJob.model_validate(
        {
            "kind": "training", "name": "x", "data": {"kind": "digits"}, "train": {"trainer": trainer},
            "devices": devices,
        }
    )  # fmt: skip


def test_torchrun_is_the_first_and_starts_a_process_for_each_rank() -> None:
    """By default it is a job's trainer; it starts as many processes as there are ranks, and none of them again."""
    assert trainer_of(job()) is Torchrun
    command = Torchrun.command(job(count=2, processes=3, strategy="ddp"), ("-m", "program", "order"))
    assert command[:3] == (sys.executable, "-m", "torch.distributed.run")
    assert command[-3:] == ("-m", "program", "order")
    options = dict(zip(command[4:-3:2], command[5:-3:2], strict=True))
    assert options == {"--local-addr": "127.0.0.1", "--nproc-per-node": "6", "--max-restarts": "0"}


def test_a_job_without_the_field_has_the_digest_that_it_had() -> None:
    """Results of before are runs of the same job; another engine's are another job's."""
    with_field = job()
    without = TrainingJob.model_validate(
        with_field.model_dump(exclude={"train": {"trainer"}}, exclude_unset=True)
    )
    assert job_digest(with_field) == job_digest(without) != job_digest(job("accelerate"))


def test_an_unknown_trainer_is_refused_with_its_line(tmp_path: Path) -> None:
    """With those that are known, before anything starts."""
    file = tmp_path / "x.yaml"
    file.write_text("kind: training\nname: x\ndata: {kind: digits}\ntrain:\n  trainer: torchrum\n")
    with pytest.raises(
        InputError, match=r"(?s)x.yaml:5.*unknown trainer 'torchrum'; did you mean 'torchrun'"
    ) as refused:
        read_submission(file, INSTALLED)
    assert "known: " in str(refused.value)
    with pytest.raises(UnknownKindError, match="at train.trainer"):
        trainer_of(job("torchrum"))


@pytest.mark.usefixtures("picky")
def test_what_an_engine_can_not_do_is_refused_by_its_field(tmp_path: Path) -> None:
    """The package's own words, at the field's line."""
    file = tmp_path / "x.yaml"
    text = "kind: training\nname: x\ndata: {kind: digits}\ntrain: {trainer: picky}\n"
    file.write_text(text)
    assert read_submission(file, INSTALLED).train.trainer == "picky"  # type: ignore[attr-defined]
    file.write_text(text + "loader: {workers: 2}\n")
    with pytest.raises(InputError, match=r"(?s)x.yaml:5.*loader.workers: picky loads by itself"):
        read_submission(file, INSTALLED)
