"""DAG files and submissions on their way to workers: an archive that is sent when something in it has changed."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from inferbench_tasks.errors import InputError
from inferbench_tasks.stamps import stamp

#: All files together. What is larger (models, data sets) travels as artifacts.
MOST_BYTES = 256 * 1024 * 1024
DAGS, SUBMISSIONS = "dags", "submissions"
#: As a data directory has them: there they are links to what came.
SUBMITTED, PARTS = "submitted", "parts"


Entry = tuple[str, Path]
"""Name in the archive, and the file."""


def of_folder(
    name: str, folder: Path, instead: Mapping[Path, Sequence[Path]] | None = None
) -> Iterator[Entry]:
    """Each regular file below; nothing hidden, no bytecode, no links out of the folder.

    ``instead``: of these folders below, links resolved, nothing but those of their files.
    """
    top = folder.resolve()
    paths: list[Path] = []
    for root, folders, names in os.walk(top):
        if (some := (instead or {}).get(Path(root))) is not None:
            folders.clear()
            paths += some
            continue
        folders[:] = [each for each in folders if not hidden(each)]
        paths += [Path(root, each) for each in names if not hidden(each)]
    for path in sorted(paths):
        if path.is_file() and path.resolve().is_relative_to(top):
            yield "/".join((name, *path.relative_to(top).parts)), path.resolve()


def hidden(name: str) -> bool:
    """Whether a file or folder of that name is sent nowhere."""
    return name.startswith(".") or name == "__pycache__"


def mark(entries: Iterable[Entry]) -> str:
    """What changes when a file appears, goes, or is written."""
    lines = []
    for name, path in entries:
        lines.append(f"{name} {stamp(path)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def write(entries: Sequence[Entry], archive: IO[bytes]) -> None:
    """A tar of the files; InputError where they are too large."""
    total = sum(path.stat().st_size for _, path in entries)
    if total > MOST_BYTES:
        raise InputError(
            f"DAGs and submissions have {total / 1e6:.0f} MB; workers of other hosts get at most "
            f"{MOST_BYTES / 1e6:.0f} MB. Keep models and data sets elsewhere: they travel as artifacts."
        )
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as tar:
        for name, path in entries:
            tar.add(path, name, recursive=False)


def unpack(archive: IO[bytes], folder: Path) -> None:
    """Make ``folder`` hold what the archive holds, file by file: a task that reads meanwhile finds whole files."""
    kept = set()
    with tarfile.open(fileobj=archive, mode="r:gz") as tar:
        for member in tar:
            safe = tarfile.data_filter(member, str(folder))
            if safe is None or not safe.isfile() or (content := tar.extractfile(member)) is None:
                continue
            target = folder / safe.name
            _make_way(target, folder)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary = target.with_name(f".{target.name}.new")
            temporary.write_bytes(content.read())
            os.replace(temporary, target)
            kept.add(target)
    # What a folder holds comes before it.
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file() and path not in kept:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _make_way(target: Path, folder: Path) -> None:
    """A name may have been a folder's and become a file's, or the other way round."""
    for above in target.parents:
        if above.is_relative_to(folder) and above.is_file():
            above.unlink()
    if target.is_dir():
        shutil.rmtree(target)
