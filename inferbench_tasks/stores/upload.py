"""One artifact's objects into a store: what is whole there stays, what is wrong is replaced by what is right here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from inferbench_tasks.errors import StorageError
from inferbench_tasks.stores.base import BLOBS, MANIFESTS, Missing, Store, name_in
from inferbench_tasks.stores.holdings import Holding
from inferbench_tasks.stores.manifest import FileEntry
from inferbench_tasks.stores.several import SMALL_BYTES, several

_BLOCK_BYTES = 16 << 20


class Untrue(StorageError):
    """A file is not what the manifest of its cache says."""


@dataclass(frozen=True)
class Upload:
    """``suspected``: keys that some host did not read as they must be. ``wrong``: those that were replaced."""

    store: Store
    holding: Holding
    suspected: Collection[str] = ()
    wrong: set[str] = field(default_factory=set)

    def __call__(self, told: Callable[[int], None]) -> None:
        """Small contents several at once, then large ones, the manifest last. ``told(bytes)``: of so many contents.

        Raises Untrue, StorageError, PerfDBError, and whatever ``told`` raises.
        """
        manifest, done = self.holding.manifest, 0
        files = {file.sha256: file for file in manifest.files}.values()

        def stored(file: FileEntry) -> None:
            nonlocal done
            done += file.bytes
            told(done)

        several(self._file, [file for file in files if file.bytes <= SMALL_BYTES], stored)
        for file in files:
            if file.bytes > SMALL_BYTES:
                self._file(file)
                stored(file)
        self._object(f"{MANIFESTS}/{manifest.digest}", manifest.content, len(manifest.content))

    def _file(self, file: FileEntry) -> None:
        self._object(f"{BLOBS}/{file.sha256}", self.holding.root / file.name, file.bytes)

    def _object(self, key: str, source: Path | bytes, size: int) -> None:
        state = self._state(key, size)
        if state == "whole":
            return
        if isinstance(source, Path):
            self._require_true(source, key)
        if state == "wrong":
            self.store.delete(key)
            self.wrong.add(key)
        self.store.put(key, source)

    def _require_true(self, path: Path, key: str) -> None:
        """Who made it may have said anything of it."""
        with open(path, "rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != name_in(key):
                raise Untrue(f"{path} is not what its cache's manifest says; remove {self.holding.root}.")

    def _state(self, key: str, size: int) -> Literal["whole", "wrong", "missing"]:
        """How an object is there: by its size, and by its SHA-256 if a host suspected it."""
        there = self.store.size(key)
        if there is None:
            return "missing"
        if there != size:
            return "wrong"
        if key not in self.suspected:
            return "whole"
        digest, start = hashlib.sha256(), 0
        try:
            while start < size and (block := self.store.read(key, start, _BLOCK_BYTES)):
                digest.update(block)
                start += len(block)
        except Missing:
            return "missing"
        return "whole" if digest.hexdigest() == name_in(key) else "wrong"
