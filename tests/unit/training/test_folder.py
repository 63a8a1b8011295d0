"""The user's folder of images."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.training import cold
from inferbench_tasks.training.folder import choose, listed, problem

#: Says 60,000 x 60,000 pixels, and has no more bytes than this.
BOMB = struct.pack(">IIBBBBB", 60_000, 60_000, 1, 0, 0, 0, 0)


def chunk(kind: bytes, content: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + check


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Two classes of 20 small images each."""
    for name in ("cats", "dogs"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(20):
            pixels = np.full((12, 9, 3), number, np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number:02}.png")
    return tmp_path / "images"


def test_images_are_chosen_by_seed_and_listed_by_class(images: Path, tmp_path: Path) -> None:
    """The same for a seed, in the order of classes and names; formats with one channel count too."""
    Image.fromarray(np.zeros((5, 5), np.uint8)).save(images / "dogs" / "grey.jpeg")
    chosen = choose(images, 30, 1, Watch())
    assert chosen.paths == choose(images, 30, 1, Watch()).paths != choose(images, 30, 2, Watch()).paths
    assert chosen.labels == sorted(chosen.labels) and chosen.classes == ["cats", "dogs"]
    assert [path.split("/")[0] == "dogs" for path in chosen.paths] == [bool(label) for label in chosen.labels]
    files = listed(tmp_path / "files.json", images, chosen)
    assert files.paths == [str(images / path) for path in chosen.paths] and not files.brought
    assert type(files).model_validate(files.model_dump()) == files
    assert choose(images, 41, 1, Watch()).left_out() == {"broken": 0, "named": [], "others": 0, "classes": 2}


def test_broken_and_hostile_images_are_left_out_by_name(images: Path) -> None:
    """Cut off, no image at all, a link, a pipe, more pixels than any picture has: none is decoded or waited for."""
    cats = images / "cats"
    whole = (images / "dogs" / "01.png").read_bytes()
    (cats / "cut.png").write_bytes(whole[:45])
    (cats / "text.jpg").write_text("no image")
    (cats / "link.png").symlink_to("/etc/passwd")
    os.mkfifo(cats / "pipe.png")
    (cats / "bomb.png").write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", BOMB) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")
    )
    (cats / "notes.txt").write_text("something else")
    (cats / os.fsdecode(b"\xff.png")).write_bytes(whole)
    (cats / "back\\slash.png").write_bytes(whole)
    left_out = choose(images, 40, 0, Watch()).left_out()
    with pytest.raises(
        InputError, match="has 40 images that can be used; 41 were asked for; left out: "
    ) as caught:
        choose(images, 41, 0, Watch())
    for name in (
        "cut.png",
        "text.jpg: is no image",
        "link.png: is no plain file",
        "pipe.png: is no",
        "bomb.png",
    ):
        assert f"cats/{name}" in str(caught.value)
    assert left_out["others"] == 3 and left_out["broken"] <= 5
    assert "pixels" in str(problem(cats / "bomb.png"))


def test_folders_that_nothing_can_be_learned_of_are_refused(images: Path, tmp_path: Path) -> None:
    """No class, one class, and images of which too many are broken."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty has no class"):
        choose(tmp_path / "empty", 2, 0, Watch())
    with pytest.raises(InputError, match="cats has no class"):
        choose(images / "cats", 2, 0, Watch())
    for path in (images / "dogs").iterdir():
        path.write_bytes(b"")
    with pytest.raises(InputError, match="11 of the first .* can't be used"):
        choose(images, 40, 0, Watch())
    for path in (images / "dogs").iterdir():
        path.unlink()
    with pytest.raises(InputError, match=r"one class \(cats\)"):
        choose(images, 2, 0, Watch())


def test_the_kernel_is_not_asked_of_files_of_others(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those it says that all lies in memory, whatever does."""
    paths = [str(path) for path in images.rglob("*.png")]
    cold.warm(paths)
    assert cold.resident_ratio(paths) == 1.0
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(paths[0]).st_uid + 1)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert cold.resident_ratio(paths) is None


def test_a_folder_with_one_class_is_refused_where_the_submission_is_read(tmp_path: Path) -> None:
    """By the names of its folders, with the line; a file beside them is no class."""
    text = (
        "kind: training\nname: x\nmodel: {name: resnet-18}\n"
        "data: {kind: folder, path: images, samples: 40}\ntrain: {batch_size: 8}\n"
    )
    (tmp_path / "images" / "cats").mkdir(parents=True)
    (tmp_path / "images" / "note.txt").write_text("no class")
    with pytest.raises(SubmissionError) as caught:
        read_submission_text(text, "x.yaml", INSTALLED, base_dir=tmp_path)
    (problem,) = map(str, caught.value.problems)
    assert problem.startswith("x.yaml:4: data.path: images has one class (cats): a classifier learns")
    (tmp_path / "images" / "dogs").mkdir()
    read_submission_text(text, "x.yaml", INSTALLED, base_dir=tmp_path)
