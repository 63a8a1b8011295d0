"""What this host has of artifacts, and where: ``<data dir>/artifacts/<digest>.json``, one record each.

What was made here is used where it was made; what came from elsewhere lies in ``cache/fetched/<digest>/``. A file
counts as what it was when it was read last, as long as its size, its times and its inode are the same (nobody can set
the time of change); else it is read again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from inferbench_tasks import private
from inferbench_tasks.artifacts.cache import MANIFEST, file_digest
from inferbench_tasks.errors import StorageError
from inferbench_tasks.stores.manifest import Manifest

log = logging.getLogger(__name__)

FOLDER = "artifacts"
#: In the data directory: entries as those of the other caches, with a manifest of the same form.
FETCHED = Path("cache") / "fetched"


@dataclass(frozen=True, slots=True)
class Holding:
    """An artifact that is here: its files lie below ``root`` by their names."""

    root: Path
    manifest: Manifest

    @property
    def fetched(self) -> bool:
        """Whether it came from a store."""
        return self.root.parent.name == FETCHED.name and self.root.name == self.manifest.digest


class Holdings:
    """Of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self._folder = data_dir / FOLDER

    def enter(self, holding: Holding) -> None:
        """Write down what was just read, or made, or fetched."""
        files = {file.name: stamp(holding.root / file.name) for file in holding.manifest.files}
        document = {"root": str(holding.root), "manifest": holding.manifest.model_dump(), "files": files}
        path = self._path(holding.manifest.digest)
        try:
            private.folder(self._folder)
            temporary = path.with_suffix(f".{os.getpid()}.tmp")
            temporary.write_text(json.dumps(document))
            os.replace(temporary, path)
        except OSError as error:
            raise StorageError(f"{path} can't be written: {error.strerror}") from error

    def find(self, digest: str) -> Holding | None:
        """The artifact, if all its files are here and are what they were; a record that is wrong is removed."""
        read = self._read(digest)
        if read is None:
            return None
        holding, stamps = read
        changed = [
            file
            for file in holding.manifest.files
            if not _same(holding.root / file.name, stamps.get(file.name))
        ]
        wrong = [file.name for file in changed if not _is(holding.root / file.name, file.sha256)]
        if wrong:
            log.warning(
                "an artifact's files here were changed artifact=%s root=%s files=%s",
                digest,
                holding.root,
                wrong,
            )
            self.forget(digest)
            return None
        if changed:
            self.enter(holding)
        with contextlib.suppress(OSError):  # where it may only be read
            os.utime(holding.root / MANIFEST)  # used just now: what was used longest ago is removed first
        return holding

    def whereabouts(self, digest: str) -> Holding | None:
        """Where it was last, without a look at its files."""
        read = self._read(digest)
        return read[0] if read else None

    def root_of(self, digest: str) -> Path | None:
        """The folder of an artifact that was here when somebody looked last."""
        holding = self.whereabouts(digest)
        return holding.root if holding else None

    def forget(self, digest: str) -> None:
        """Remove the record; the files stay."""
        self._path(digest).unlink(missing_ok=True)

    def digests(self) -> Iterator[str]:
        """Of all that was here when somebody looked last."""
        for path in sorted(self._folder.glob("*.json")):
            yield path.stem

    def _read(self, digest: str) -> tuple[Holding, Mapping[str, list[int]]] | None:
        try:
            document = json.loads(self._path(digest).read_bytes())
            manifest = Manifest.model_validate_json(json.dumps(document["manifest"]))
            if manifest.digest != digest:
                raise ValueError("another's manifest")
            return Holding(Path(document["root"]), manifest), dict(document["files"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, ValidationError):
            log.warning("the record of an artifact can't be read; it counts as none artifact=%s", digest)
            return None

    def _path(self, digest: str) -> Path:
        return self._folder / f"{digest}.json"


def stamp(path: Path) -> list[int]:
    """What changes with a file; OSError where there is none."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _same(path: Path, before: list[int] | None) -> bool:
    try:
        return stamp(path) == before
    except OSError:
        return False


def _is(path: Path, sha256: str) -> bool:
    try:
        return file_digest(path) == sha256
    except OSError:
        return False
