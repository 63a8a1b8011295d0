"""Files that a list names: only while it is the list that was written, and only below their folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferbench_tasks.contracts.located_files import LocatedFiles
from inferbench_tasks.errors import StorageError


def listed(tmp_path: Path) -> LocatedFiles:
    return LocatedFiles.listed(["b/2.png", "a/1.png"], tmp_path / "images", tmp_path / "files.json")


def test_a_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    """In its order, also after a way through JSON; one of before, whose digest nobody told, is read as it is."""
    files = listed(tmp_path)
    assert files.paths == [f"{tmp_path}/images/b/2.png", f"{tmp_path}/images/a/1.png"]
    assert LocatedFiles.model_validate_json(files.model_dump_json()) == files
    before = LocatedFiles.model_validate({"folder": files.folder, "listing": files.listing})
    assert before.names == files.names and len(files.listing_sha256) == 64


def test_a_list_that_was_changed_is_not_used(tmp_path: Path) -> None:
    """Not for one of the same length, nor for a longer one; a link in its place is not followed."""
    files = listed(tmp_path)
    listing = Path(files.listing)
    listing.write_text(json.dumps(["b/2.png", "a/3.png"]))
    with pytest.raises(StorageError, match="it was changed since"):
        _ = files.names
    listing.write_text(json.dumps(["b/2.png", "a/1.png", "a/3.png"]))
    with pytest.raises(OSError, match="more than the"):
        _ = files.names
    listing.rename(tmp_path / "other.json")
    listing.symlink_to(tmp_path / "other.json")
    with pytest.raises(OSError, match="a link stands there"):
        _ = files.names


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret", "a//b", ".", ""])
def test_no_name_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    """Whoever wrote the list has opened a stranger's images."""
    files = LocatedFiles.listed(["a/1.png", name], tmp_path / "images", tmp_path / "files.json")
    with pytest.raises(StorageError, match="which is no file below"):
        _ = files.names


@pytest.mark.parametrize("content", ["{", '{"a": 1}', "[1]", '"a"', "null"])
def test_what_is_no_list_of_names_is_refused(content: str, tmp_path: Path) -> None:
    """With the file's name."""
    listing = tmp_path / "files.json"
    listing.write_text(content)
    with pytest.raises(StorageError, match="files.json is no list of files"):
        _ = LocatedFiles(folder=str(tmp_path), listing=str(listing)).names
