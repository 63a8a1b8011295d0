"""Images of trainings stay where they are until a host needs them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from inferbench_tasks.provider.joining import files
from inferbench_tasks.provider.joining.image_folders import sent_of

TRAINING = "kind: training\nname: images\ndata: {kind: folder, path: %s, samples: 8}\n"


@pytest.fixture
def submissions(tmp_path: Path) -> Path:
    """A training on three classes of five images, beside the folder of another."""
    folder = tmp_path / "submissions"
    for name in ("cats", "dogs", "owls"):
        (folder / "team" / "images" / name / "deep").mkdir(parents=True)
        for number in range(5):
            (folder / "team" / "images" / name / "deep" / f"{number}.PNG").write_text("an image")
    (folder / "team" / "images" / "notes.txt").write_text("notes")
    (folder / "team" / "images.yaml").write_text(TRAINING % "images")
    (folder / "team" / "net.py").write_text("def build(): ...")
    return folder


def sent(submissions: Path) -> list[str]:
    return [name.removeprefix("s/") for name, _ in files.of_folder("s", submissions, sent_of(submissions))]


def test_of_a_folder_of_images_two_are_sent(submissions: Path) -> None:
    """As many as a worker needs to see that it has classes; all else that lies beside it is sent whole."""
    names = sent(submissions)
    of_images = [name for name in names if name.startswith("team/images/")]
    assert [name.split("/")[2] for name in of_images] == ["cats", "dogs"]
    assert set(names) - set(of_images) == {"team/images.yaml", "team/net.py"}


def test_neither_a_link_nor_what_is_hidden_is_one_of_the_two(submissions: Path) -> None:
    """A link is no image that is trained on, and is not sent where it leads out: the class has another. A hidden
    folder is no class.
    """
    images = submissions / "team" / "images"
    (images / "cats" / "0.jpg").symlink_to("/etc/passwd")
    for hidden in (images / ".cache", images / "cats" / ".thumbs", images / "__pycache__"):
        hidden.mkdir()
        (hidden / "0.jpg").write_text("an image")
    (images / "cats" / ".0.jpg").write_text("an image")
    chosen = [path.relative_to(images).as_posix() for path in sent_of(submissions)[images]]
    assert [path.rpartition("/")[0] for path in chosen] == ["cats/deep", "dogs/deep"]
    assert [name.split("/")[2] for name in sent(submissions) if name.startswith("team/images/")] == [
        "cats",
        "dogs",
    ]


@pytest.mark.parametrize(
    "other",
    [
        "name: images\nrequests: {kind: files, path: images/cats}\n",
        "kind: training\nname: x\ndata: {kind: fashion-mnist, path: images}\n",
        "name: x\nsweep: {model.path: [other, images/cats/deep/0.PNG]}\n",
    ],
)
def test_what_another_submission_names_is_sent_whole(submissions: Path, other: str) -> None:
    """It may be read on its device's host; names that lie nowhere, and what submissions are called, are no such."""
    (submissions / "team" / "named.yaml").write_text("name: images\nmodel: {kind: zoo, name: digits}\n")
    assert len(sent(submissions)) == 5
    (submissions / "team" / "other.yaml").write_text(other)
    assert len(sent(submissions)) == 20


def test_a_folder_that_holds_submissions_or_leads_out_is_no_folder_of_images(
    submissions: Path, tmp_path: Path
) -> None:
    """Nothing that a worker reads goes missing, whatever a submission says; what is no YAML is none."""
    (tmp_path / "outside" / "cats").mkdir(parents=True)
    (submissions / "up.yaml").write_text(TRAINING % "../outside")
    (submissions / "broken.yaml").write_text("kind: [training")
    assert set(sent_of(submissions)) == {submissions / "team" / "images"}
    (submissions / "team.yaml").write_text(TRAINING % "team")
    assert set(sent_of(submissions)) == set()
    assert len(sent(submissions)) == 21


def test_a_submission_that_changed_is_read_again(submissions: Path) -> None:
    """Its folder may be another by now."""
    assert len(sent_of(submissions)) == 1
    (submissions / "team" / "images.yaml").write_text(TRAINING % "elsewhere/entirely")
    assert sent_of(submissions) == {}


def test_what_cannot_be_read_is_logged_by_name_once(
    submissions: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each file with why: what is no YAML, what is no text, and a link that leads nowhere; the others still count."""
    (submissions / "broken.yaml").write_text("kind: [training")
    (submissions / "latin.yml").write_bytes(b"name: caf\xe9")
    (submissions / "team" / "gone.yaml").symlink_to(submissions / "nowhere.yaml")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert set(sent_of(submissions)) == {submissions / "team" / "images"}
    words = sorted(record.getMessage().partition("file=")[2] for record in caplog.records)
    assert [text.partition(": ")[0] for text in words] == [
        str(submissions / name) for name in ("broken.yaml", "latin.yml", "team/gone.yaml")
    ]
    assert "No such file or directory" in words[2] and "utf-8" in words[1]
    assert all(len(text.partition(": ")[2]) > 5 for text in words)
