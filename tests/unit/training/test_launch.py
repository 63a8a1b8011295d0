"""What a trainer's processes may read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inferbench_tasks.errors import StageError
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stores.holdings import FETCHED
from inferbench_tasks.training.hosts import on_host
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.launch import image_folders, opened
from inferbench_tasks.training.order import Answer, Order, answer_path

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


def test_images_are_read_where_the_submission_says_or_in_an_artifact(tmp_path: Path) -> None:
    """Nowhere else on the host, whatever the stage before it was told."""
    data = {"kind": "folder", "path": "images", "samples": 16, "image_size": 8}
    job = TrainingJob.model_validate(
        {"kind": "training", "name": "x", "data": data, "train": {"batch_size": 4}}
    )
    ctx = Context(data_dir=tmp_path / "data", base_dir=tmp_path)
    fetched = ctx.data_dir / FETCHED / "digest"

    def read(folder: Path | None) -> list[str]:
        named = None if folder is None else str(folder)
        return image_folders(Order(job=job, images_path="x", labels_path="y", files_folder=named), ctx)

    assert read(tmp_path / "images") == [str(tmp_path / "images")]
    assert read(fetched) == [str(fetched)] and read(None) == []
    for folder in (tmp_path, tmp_path / "images" / "..", Path("/etc"), ctx.data_dir / FETCHED):
        with pytest.raises(StageError, match="a folder that the submission does not name"):
            read(folder)


def test_what_stands_in_the_place_of_an_order_is_replaced(tmp_path: Path) -> None:
    """Who tried the user's module could have put a link there: the file that it leads to stays as it is."""
    (tmp_path / "secret").write_text("not yours")
    folder = tmp_path / "training"
    folder.mkdir()
    (folder / "order.json").symlink_to(tmp_path / "secret")
    path = on_host.prepare(order(tmp_path, tmp_path), folder)
    assert Order.read(path).job == JOB and not path.is_symlink()
    assert (tmp_path / "secret").read_text() == "not yours"
    path.unlink()
    path.symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="a link stands there"):
        Order.read(path)


def test_of_a_rank_only_a_plain_file_is_its_answer(tmp_path: Path) -> None:
    """A link may lead to another run's, a pipe has no end; what is seen of the host is written where no rank writes."""
    folder = tmp_path / "run" / "training"
    folder.mkdir(parents=True)
    answer_path(folder, 0).symlink_to(tmp_path / "other")
    os.mkfifo(answer_path(folder, 1))
    for rank in (0, 1):
        with pytest.raises(
            StageError, match=f"What a rank wrote can't be read: .*rank-{rank}.json: .* stands"
        ):
            Answer.read(answer_path(folder, rank))
    assert folder not in on_host.recording_path(folder).parents
