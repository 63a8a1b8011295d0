"""Where a remedy that is run finds the files that its training names."""

from __future__ import annotations

import os
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.cli.training_verify import files_folder
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import HostClock, Provenance
from inferbench_tasks.pipelines.training import TRAINING
from inferbench_tasks.running.invocation import Invocation, Order
from inferbench_tasks.training.result import TrainingResult
from tests.unit.training.report.results import view

JOB: dict[str, Any] = {
    "kind": "training",
    "name": "x",
    "data": {"kind": "folder", "path": "images", "samples": 2},
    "model": {"kind": "file", "name": "own", "module": "net.py"},
}


def run_of(job: dict[str, Any], invocation: str | None = None) -> TrainingResult:
    result = view("a").result
    return result.model_copy(update={"provenance": Provenance(**{"job": job}), "invocation_id": invocation})


def files(folder: Path) -> Path:
    """An image of each of two classes, and a module."""
    for name in ("cats/1.png", "dogs/1.png"):
        path = folder / "images" / name
        path.parent.mkdir(parents=True)
        path.touch()
    (folder / "net.py").touch()
    return folder


def after_all() -> datetime:
    """A moment after all that was written up to now: file systems' times lag a few ms behind the clock."""
    time.sleep(0.05)
    return datetime.now(UTC)


def test_they_lie_beside_the_submission_that_was_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the remedy is asked for; of a run that another host made, in the folder in which it is."""
    data_dir, there = tmp_path / "data", files(tmp_path / "there")
    invocation = Invocation.new(data_dir, "x")
    order = Order(
        submission=TRAINING.submission.model_validate(JOB), base_dir=str(there), data_dir=str(data_dir)
    )
    invocation.place(order)
    monkeypatch.chdir(tmp_path)
    assert files_folder(run_of(JOB, invocation.id), data_dir) == there
    with pytest.raises(InputError, match=f"used net.py, images, which is not in {tmp_path}: "):
        files_folder(run_of(JOB, "another-host"), data_dir)
    monkeypatch.chdir(there)
    assert files_folder(run_of(JOB, "another-host"), data_dir) == there


def test_a_training_without_files_needs_no_folder(tmp_path: Path) -> None:
    """Its data is the installation's."""
    assert files_folder(run_of({**JOB, "data": {"kind": "digits"}, "model": {}}), tmp_path) is None


def test_data_that_changed_since_the_run_verifies_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is another, or one that came or went, which its folder's own time tells."""
    monkeypatch.chdir(files(tmp_path / "there"))
    result = run_of(JOB).model_copy(update={"created_at": after_all()})
    assert files_folder(result, tmp_path) == Path.cwd()
    time.sleep(0.05)
    (Path("images") / "dogs" / "2.png").touch()
    with pytest.raises(InputError, match="images/dogs.* was changed since x-1.a"):
        files_folder(result, tmp_path)
    (Path("images") / "dogs" / "2.png").unlink()
    with pytest.raises(InputError, match="images/dogs was changed since x-1.a"):
        files_folder(result, tmp_path)


@pytest.mark.parametrize("ahead_s", [-3600.0, 3600.0])
def test_on_a_host_whose_clock_is_off_data_is_neither_missed_nor_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    """Files are dated by its clock, the result by PerfDB's, with how far that host's was ahead."""
    monkeypatch.chdir(files(tmp_path / "there"))
    by_perfdb = after_all() - timedelta(seconds=ahead_s)
    clock = HostClock(ahead_s=ahead_s, error_s=0.001)
    result = run_of(JOB).model_copy(update={"created_at": by_perfdb, "clock": clock})
    assert files_folder(result, tmp_path) == Path.cwd()
    time.sleep(0.05)
    (Path("images") / "dogs" / "1.png").write_bytes(b"another")
    with pytest.raises(InputError, match="images/dogs/1.png was changed since x-1.a"):
        files_folder(result, tmp_path)


def test_data_whose_time_was_put_back_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other pixels under the old time of modification, as ``rsync -t`` leaves them: the change time tells."""
    monkeypatch.chdir(files(tmp_path / "there"))
    image = Path("images") / "dogs" / "1.png"
    before = image.stat()
    result = run_of(JOB).model_copy(update={"created_at": after_all()})
    time.sleep(0.05)
    image.write_bytes(b"another")
    os.utime(image, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InputError, match="images/dogs/1.png was changed since x-1.a"):
        files_folder(result, tmp_path)


def test_a_folder_that_is_another_one_now_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``images`` leads over ``current`` to the first of two folders, then to the other, whose files are older than the
    run: the link in the middle is the one that was changed.
    """
    monkeypatch.chdir(files(tmp_path / "there"))
    shutil.rmtree("images")
    for version in ("v2", "v1"):
        files(Path(version))
    current = Path("current")
    current.symlink_to("v1")
    Path("images").symlink_to("current/images")
    result = run_of(JOB).model_copy(update={"created_at": after_all()})
    assert files_folder(result, tmp_path) == Path.cwd()
    time.sleep(0.05)
    current.unlink()
    current.symlink_to("v2")
    with pytest.raises(InputError, match="was changed since x-1.a"):
        files_folder(result, tmp_path)


def test_data_behind_a_link_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A linked image, and a linked folder of a class, are older themselves than what they lead to."""
    monkeypatch.chdir(files(tmp_path / "there"))
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "birds").mkdir(parents=True)
    for name in ("2.png", "birds/1.png"):
        (elsewhere / name).touch()
    (Path("images") / "dogs" / "2.png").symlink_to(elsewhere / "2.png")
    (Path("images") / "birds").symlink_to(elsewhere / "birds")
    (Path("images") / "again").symlink_to(Path.cwd() / "images")
    result = run_of(JOB).model_copy(update={"created_at": after_all()})
    assert files_folder(result, tmp_path) == Path.cwd()
    time.sleep(0.05)
    (elsewhere / "2.png").write_bytes(b"another")
    with pytest.raises(InputError, match="images/dogs/2.png was changed since"):
        files_folder(result, tmp_path)
    (Path("images") / "dogs" / "2.png").unlink()
    result = result.model_copy(update={"created_at": after_all()})
    time.sleep(0.05)
    (elsewhere / "birds" / "1.png").write_bytes(b"another")
    with pytest.raises(InputError, match="images/birds/1.png was changed since"):
        files_folder(result, tmp_path)
