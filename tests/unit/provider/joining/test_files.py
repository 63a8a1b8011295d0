"""DAG files and submissions on their way."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.joining import files


def entries(folders: dict[str, Path]) -> list[files.Entry]:
    """Of all folders."""
    return [entry for name, folder in folders.items() for entry in files.of_folder(name, folder)]


def sent(folders: dict[str, Path]) -> io.BytesIO:
    """The archive of the folders."""
    archive = io.BytesIO()
    files.write(entries(folders), archive)
    archive.seek(0)
    return archive


def test_what_was_removed_goes_and_the_rest_arrives(tmp_path: Path) -> None:
    """Nothing hidden, no bytecode, and no file that a link leads to outside of the folder."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    for name in ("a.yaml", "deep/b.yaml", ".hidden", "gone.yaml"):
        (source / name).write_text(name)
    (source / "link.yaml").symlink_to(tmp_path / "secret")
    files.unpack(sent({"dags": source}), target)
    first = files.mark(entries({"dags": source}))
    (source / "gone.yaml").unlink()
    (source / "a.yaml").write_text("changed")
    assert files.mark(entries({"dags": source})) != first
    files.unpack(sent({"dags": source}), target)
    found = {str(p.relative_to(target)): p.read_text() for p in target.rglob("*") if p.is_file()}
    assert found == {"dags/a.yaml": "changed", "dags/deep/b.yaml": "deep/b.yaml"}


def test_a_name_may_become_a_folder_s_and_a_file_s_again(tmp_path: Path) -> None:
    """And no empty folder stays of what was removed."""
    target = tmp_path / "target"
    for number, tree in enumerate(({"a": "file"}, {"a/b/c.py": "deep"}, {"a": "file"}, {"d/e.py": "other"})):
        source = tmp_path / str(number)
        for name, text in tree.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text)
        files.unpack(sent({"dags": source}), target)
        found = {str(p.relative_to(target / "dags")): p for p in (target / "dags").rglob("*")}
        assert {name: p.read_text() for name, p in found.items() if p.is_file()} == tree
    assert set(found) == {"d", "d/e.py"}


def test_an_archive_writes_nowhere_else(tmp_path: Path) -> None:
    """Even the leader's, which may have been broken into."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    archive.seek(0)
    with pytest.raises(tarfile.OutsideDestinationError):
        files.unpack(archive, tmp_path / "target")
    assert not (tmp_path / "outside").exists()


def test_too_much_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models don't travel this way."""
    monkeypatch.setattr(files, "MOST_BYTES", 3)
    (tmp_path / "a.yaml").write_text("four")
    with pytest.raises(InputError, match="they travel as artifacts"):
        sent({"submissions": tmp_path})
