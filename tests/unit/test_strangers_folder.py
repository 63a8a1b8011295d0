"""Files in folders where a stranger's process writes, too."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Literal

import pytest

from inferbench_tasks.strangers_folder import cleared, end_of, not_plain, opened, read

Mode = Literal["rb", "ab", "wb"]
MODES = pytest.mark.parametrize("mode", ["rb", "ab", "wb"])


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside of the folder, which must neither be read nor written."""
    path = tmp_path / "secret"
    path.write_text("not yours")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    return path


def test_a_plain_file_is_opened_as_it_is_asked(folder: Path) -> None:
    """Made where it is missing, written from its end on or anew, and read."""
    with opened(folder / "x.log", "ab") as file:
        file.write(b"one\n")
    with opened(folder / "x.log", "ab") as file:
        file.write(b"two\n")
    assert read(folder / "x.log") == b"one\ntwo\n"
    assert end_of(folder / "x.log", 4) == "two\n"
    with opened(folder / "x.log", "wb") as file:
        file.write(b"3")
    assert read(folder / "x.log", within=folder.parent) == b"3"
    with opened(folder / "x.log") as file:
        assert os.get_blocking(file.fileno())


@MODES
def test_no_link_is_followed(folder: Path, secret: Path, mode: Mode) -> None:
    """Neither to a file, nor to where none is yet; the error says which file, and what stands there."""
    for name, target in (("x.log", secret), ("y.log", folder.parent / "new")):
        (folder / name).symlink_to(target)
        with pytest.raises(OSError, match="a link stands there, which is not followed") as refused:
            opened(folder / name, mode)
        assert refused.value.filename == str(folder / name)
    assert secret.read_text() == "not yours" and not (folder.parent / "new").exists()


@MODES
def test_no_folder_on_the_way_is_a_link(folder: Path, secret: Path, mode: Mode) -> None:
    """Below the one that is named; that one may be reached by links."""
    (folder / "server").symlink_to(secret.parent)
    with pytest.raises(OSError, match="its folder server is a link") as refused:
        opened(folder / "server" / "secret", mode, within=folder)
    assert refused.value.filename == str(folder / "server" / "secret")
    assert secret.read_text() == "not yours"
    (folder.parent / "way").symlink_to(folder)
    (folder / "own").mkdir()
    (folder / "own" / "x").write_text("mine")
    way = folder.parent / "way"
    assert read(way / "own" / "x", within=way) == b"mine"


@MODES
def test_a_pipe_is_not_waited_for(folder: Path, mode: Mode) -> None:
    """It would be for ever: nobody is at its other end. Nor is a folder or a socket a file."""
    os.mkfifo(folder / "x.log")
    (folder / "deep").mkdir()
    with socket.socket(socket.AF_UNIX) as listens:
        listens.bind(str(folder / "s"))
        for name in ("x.log", "deep", "s"):
            with pytest.raises(OSError, match="no plain file stands there"):
                opened(folder / name, mode)


@pytest.mark.parametrize("mode", ["ab", "wb"])
def test_a_second_name_of_another_file_is_not_written(folder: Path, secret: Path, mode: Mode) -> None:
    """It is the other file; nothing of it is cut off either."""
    os.link(secret, folder / "x.log")
    with pytest.raises(OSError, match="another name elsewhere"):
        opened(folder / "x.log", mode)
    assert secret.read_text() == "not yours"


def test_what_is_missing_or_too_large_is_named_whole(folder: Path) -> None:
    """As ``open`` would: FileNotFoundError with the path; a file that has no end is not read whole."""
    with pytest.raises(FileNotFoundError) as missing:
        read(folder / "x.json", within=folder.parent)
    assert missing.value.filename == str(folder / "x.json")
    (folder / "x.json").write_bytes(b"12345")
    with pytest.raises(OSError, match="more than the 4 bytes"):
        read(folder / "x.json", 4)


def test_what_is_not_plain_is_found_wherever_it_lies(folder: Path, secret: Path) -> None:
    """Links to files, to folders and to nothing, and pipes; no link is looked behind. They are what is removed."""
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "plain").write_text("x")
    (folder / "deep" / "file").symlink_to(secret)
    (folder / "above").symlink_to(folder.parent)
    (folder / "deep" / "er" / "nothing").symlink_to("gone")
    os.mkfifo(folder / "deep" / "er" / "pipe")
    found = {str(path.relative_to(folder)): what for path, what in not_plain(folder)}
    pipe = "a pipe, a socket or a device"
    links = dict.fromkeys(("deep/file", "above", "deep/er/nothing"), "a link")
    assert found == {**links, "deep/er/pipe": pipe}
    said = cleared(folder)
    assert len(said) == 4 and f"a link at {folder / 'above'}" in said
    assert not list(not_plain(folder)) and (folder / "deep" / "plain").read_text() == "x"
    assert secret.read_text() == "not yours"
