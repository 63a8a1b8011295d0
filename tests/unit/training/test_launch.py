"""What a trainer's processes may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.errors import StageError
from inferbench_tasks.stores.holdings import FETCHED
from inferbench_tasks.training.hosts import on_host
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.launch import opened
from inferbench_tasks.training.order import Order

JOB = TrainingJob.model_validate({"kind": "training", "name": "x", "data": {"kind": "digits"}})


def order(images: Path, labels: Path) -> Order:
    return Order(job=JOB, images_path=str(images), labels_path=str(labels))


def test_ranks_read_the_run_s_files_and_those_that_were_brought(tmp_path: Path) -> None:
    """On the host that made them, and from an artifact on another one."""
    folder, brought = tmp_path / "runs" / "r" / "training", tmp_path / FETCHED / "digest"
    folder.mkdir(parents=True)
    brought.mkdir(parents=True)
    asked = order(folder / "images.npy", brought / "labels.npy")
    assert opened(asked, folder, tmp_path) == [str(folder / "images.npy"), str(brought / "labels.npy")]


@pytest.mark.parametrize(
    "place", ["/etc/shadow", "runs/other/training/images.npy", str(FETCHED), "cache/models/m", "linked"]
)
def test_ranks_read_nothing_else_that_a_user_s_code_named(place: str, tmp_path: Path) -> None:
    """Neither the host's files, nor another run's, nor all artifacts at once, nor where a link leads."""
    folder = tmp_path / "runs" / "r" / "training"
    folder.mkdir(parents=True)
    (folder / "out").symlink_to("/etc")
    named = folder / "out" / "shadow" if place == "linked" else tmp_path / place
    with pytest.raises(StageError, match="none of the run's own files"):
        opened(order(folder / "images.npy", named), folder, tmp_path)


def test_a_run_s_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """What is written there with our rights would be written where it leads."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "training").symlink_to(elsewhere)
    with pytest.raises(StageError, match="is a link"):
        on_host.prepare(order(elsewhere, elsewhere), tmp_path / "training")
    assert not list(elsewhere.iterdir())
