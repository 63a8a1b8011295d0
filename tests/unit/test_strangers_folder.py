"""Files in folders where a stranger's process writes, too."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Literal

import pytest

from inferbench_tasks.folder_tree import remove_tree
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


def nested(folder: Path, depth: int) -> None:
    """So many folders in each other, with a link in the last one: by descriptors, as no path could name them."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 50, dir_fd=here)
        below = os.open("d" * 50, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.symlink("/etc/passwd", "link", dir_fd=here)
    os.close(here)


def test_folders_too_deep_are_refused_and_removed(folder: Path) -> None:
    """A thousand of them keep nothing else from being removed; up to 200 are folders as others."""
    nested(folder, 1500)
    (folder / "link").symlink_to("gone")
    (folder / "z").mkdir()
    nested(folder / "z", 150)
    assert "folders nested deeper than 200" in {what for _, what in not_plain(folder)}
    said = cleared(folder)
    assert sorted(one.split(" at ")[0] for one in said) == [
        "a link",
        "a link",
        "folders nested deeper than 200",
    ]
    assert not list(not_plain(folder)) and (folder / "z").is_dir() and cleared(folder) == []
    remove_tree(folder)
    assert not folder.exists()


def test_what_can_not_be_removed_keeps_nothing_else(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All others are gone when the error comes, which names the first that stays."""
    for name in "abc":
        (folder / name).symlink_to("gone")
    unlink = os.unlink

    def refusing(path: str, **kw: int) -> None:
        if path == "b":
            raise PermissionError(1, "Operation not permitted", path)
        unlink(path, **kw)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refusing)
        with pytest.raises(PermissionError) as refused:
            cleared(folder)
    assert refused.value.filename == str(folder / "b")
    assert [path.name for path in folder.iterdir()] == ["b"]


def test_many_links_are_counted_and_not_all_named(folder: Path) -> None:
    """The message about them has an end."""
    for number in range(103):
        (folder / f"{number}").symlink_to("gone")
    said = cleared(folder)
    assert len(said) == 101 and said[-1] == "3 more"


def test_a_folder_that_is_a_link_is_not_cleared(folder: Path) -> None:
    """What is removed would be another's."""
    other = folder.parent / "other"
    other.symlink_to(folder)
    (folder / "link").symlink_to("gone")
    with pytest.raises(OSError, match="a link stands there"):
        cleared(other)
    with pytest.raises(OSError, match="directory|symbolic"):
        remove_tree(other)
    assert (folder / "link").is_symlink()
