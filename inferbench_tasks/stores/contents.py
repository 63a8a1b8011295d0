"""What the manifests of a store name: which contents are still needed."""

from __future__ import annotations

from collections.abc import Iterable

from inferbench_tasks.errors import StorageError
from inferbench_tasks.stores.base import Missing, Store, Stored, name_in
from inferbench_tasks.stores.manifest import MAX_MANIFEST_BYTES, Manifest
from inferbench_tasks.stores.several import several

_SHA256_BYTES = 32


class Contents:
    """Of one store. A manifest never changes: each is read once, however often this is asked.

    ``damaged``: keys of those that can't be read, and why; nothing is known of what they name.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._named: dict[str, bytes] = {}
        self.damaged: dict[str, str] = {}

    def read(self, manifests: Iterable[Stored]) -> None:
        """Those that were not read yet, and the damaged ones again: they may have been stored again."""
        several(self._read, [item for item in manifests if item.key not in self._named])

    def named(self, keys: Iterable[str]) -> set[bytes]:
        """The SHA-256 of all contents that these manifests name."""
        return {
            digests[start : start + _SHA256_BYTES]
            for key in keys
            if (digests := self._named.get(key)) is not None
            for start in range(0, len(digests), _SHA256_BYTES)
        }

    def _read(self, item: Stored) -> None:
        for _ in range(2):  # the second time it may come as it is
            try:
                content = self._store.read(item.key) if item.bytes <= MAX_MANIFEST_BYTES else b""
            except Missing:
                return
            try:
                files = Manifest.read(content, name_in(item.key)).files
            except StorageError as error:
                self.damaged[item.key] = str(error)
            else:
                self._named[item.key] = b"".join(bytes.fromhex(file.sha256) for file in files)
                self.damaged.pop(item.key, None)
                return
