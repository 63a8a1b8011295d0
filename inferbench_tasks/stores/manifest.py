"""What an artifact is: files with names, sizes, modes and digests; its own digest is the SHA-256 of that list."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from inferbench_tasks.artifacts.cache import MANIFEST, file_digest
from inferbench_tasks.errors import StorageError
from inferbench_tasks.problem import field_problems

#: A folder of 100,000 images, which a training may have, and what lies beside them.
MAX_FILES = 110_000
#: Of so many files whose names have 480 characters, in ASCII: what any host reads whole.
MAX_MANIFEST_BYTES = 64 << 20
_PLAIN, _EXECUTABLE = 0o644, 0o755
_FORM = ConfigDict(frozen=True, extra="forbid", strict=True)


class FileEntry(BaseModel):
    """One file. ``name``: relative, with slashes; ``mode``: 0o644, or 0o755 of what may be executed."""

    model_config = _FORM

    name: str
    bytes: int
    mode: int
    sha256: str

    @field_validator("name")
    @classmethod
    def _inside(cls, name: str) -> str:
        parts = name.split("/")
        forbidden = any(part in ("", ".", "..") for part in parts) or "\\" in name or not name.isprintable()
        if forbidden or PurePosixPath(name).is_absolute() or name == MANIFEST:
            raise ValueError(f"the name {name[:200]!r} is forbidden")
        return name

    @field_validator("sha256")
    @classmethod
    def _digest(cls, value: str) -> str:
        if len(value) != 64 or set(value) - set("0123456789abcdef"):
            raise ValueError("no SHA-256")
        return value

    @model_validator(mode="after")
    def _possible(self) -> FileEntry:
        if self.bytes < 0 or self.mode not in (_PLAIN, _EXECUTABLE):
            raise ValueError(f"{self.name!r} has {self.bytes} bytes and the mode {self.mode:o}")
        return self


class Manifest(BaseModel):
    """All files of an artifact, by name. A name is never a folder of another's."""

    model_config = _FORM

    files: tuple[FileEntry, ...]

    @model_validator(mode="after")
    def _distinct(self) -> Manifest:
        names = [file.name for file in self.files]
        folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
        if not names or len(names) > MAX_FILES or names != sorted(set(names)) or folders.intersection(names):
            raise ValueError(
                f"{len(names)} files, whose names are not sorted and distinct (1 to {MAX_FILES:,})"
            )
        return self

    @property
    def content(self) -> bytes:
        """Its canonical JSON, which is what a store keeps."""
        document = {"files": [file.model_dump() for file in self.files]}
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()

    @property
    def digest(self) -> str:
        """The artifact's name everywhere: SHA-256 of ``content``, hex."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def total_bytes(self) -> int:
        """Of all its files."""
        return sum(file.bytes for file in self.files)

    @property
    def digests(self) -> dict[str, str]:
        """Name -> SHA-256."""
        return {file.name: file.sha256 for file in self.files}

    @classmethod
    def read(cls, content: bytes, digest: str) -> Manifest:
        """What a store had under that digest. StorageError for anything else, however it came about."""
        if hashlib.sha256(content).hexdigest() != digest:
            raise StorageError(f"The manifest of artifact {digest} is damaged: its SHA-256 is another.")
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            words = "; ".join(field_problems(error)[:3])
            raise StorageError(f"The manifest of artifact {digest} is none: {words}") from error

    @classmethod
    def of(cls, root: Path, names: Iterable[str], known: Mapping[str, str] | None = None) -> Manifest:
        """Of files below a folder. ``known``: name -> SHA-256 of those that were read already.

        StorageError for a link that leads out of the folder, for what is no file, and where there are too many of them,
        or their names are too long for a manifest that others would read.
        """
        files = []
        for name in sorted(names):
            path = root / name
            status = path.stat()
            if not stat.S_ISREG(status.st_mode) or not path.resolve().is_relative_to(root.resolve()):
                raise StorageError(f"{path} is no file of {root}; it can't be part of an artifact.")
            mode = _EXECUTABLE if status.st_mode & stat.S_IXUSR else _PLAIN
            digest = (known or {}).get(name) or file_digest(path)
            files.append(FileEntry(name=name, bytes=status.st_size, mode=mode, sha256=digest))
        try:
            manifest = cls(files=tuple(files))
        except ValidationError as error:
            raise StorageError(f"{root} can't be an artifact: {field_problems(error)[0]}") from error
        if (size := len(manifest.content)) > MAX_MANIFEST_BYTES:
            raise StorageError(
                f"{root} can't be an artifact: the list of its {len(files):,} files takes {size / 2**20:.1f} MiB, and "
                f"{MAX_MANIFEST_BYTES >> 20} MiB are allowed; have fewer files, or shorter names."
            )
        return manifest
