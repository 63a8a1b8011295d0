"""Where artifacts are kept for all hosts: immutable objects under keys, found by a store's URL.

A manifest lies under ``manifests/<digest>``, a file's content under ``blobs/<sha256>``: what two artifacts have in
common is there once. Under ``owners/<id>`` each PerfDB that uses the store has left its mark (``owners.py``).
"""

from __future__ import annotations

import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from inferbench_tasks.errors import InputError
from inferbench_tasks.registry import Registry

if TYPE_CHECKING:
    from inferbench_tasks.perfdb.store import PerfDB

#: The URL of the store that artifacts are put into.
ARTIFACTS = "INFERBENCH_ARTIFACTS"
DEFAULT_URL = "gridfs:"
KINDS = MANIFESTS, BLOBS, OWNERS = "manifests", "blobs", "owners"
KEY = re.compile(rf"({'|'.join(KINDS)})/[0-9a-f]{{64}}")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):")


@dataclass(frozen=True, slots=True)
class Stored:
    """One object: when it was stored (Unix time, by the clock that ``Store.now_s`` tells), and how large it is."""

    key: str
    bytes: int
    stored_s: float


def kind_of(key: str) -> str:
    """Which of ``KINDS`` an object is of."""
    return key.partition("/")[0]


def name_in(key: str) -> str:
    """An object's key without its kind: a digest, or the id of a PerfDB."""
    return key.partition("/")[2]


class Missing(Exception):
    """The store has no such object."""


class Store(ABC):
    """Several threads, processes and hosts use it at once. An object appears whole or not at all, and never changes.

    All methods raise StorageError or PerfDBError where the store can't be reached, is full, or refuses.
    """

    #: What has to be installed for it, as an extra of ours.
    extra: ClassVar[str | None] = None
    #: Whether only one PerfDB can use it, so that no marks are needed.
    of_one_perfdb: ClassVar[bool] = False

    def __init__(self, url: str, db: PerfDB) -> None:
        self.url = url
        self.db = db

    @abstractmethod
    def put(self, key: str, source: Path | bytes) -> None:
        """Store an object; one that is there with that size stays."""

    @abstractmethod
    def size(self, key: str) -> int | None:
        """Its bytes; None where there is none."""

    @abstractmethod
    def read(self, key: str, start: int = 0, length: int = -1) -> bytes:
        """A part of an object, or the rest; shorter where it ends before. Raises Missing too."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object; harmless if it is gone."""

    @abstractmethod
    def objects(self) -> Iterator[Stored]:
        """All that is there; what lies beside and has no key of ours is left out."""

    def owners(self) -> Iterator[Stored]:
        """Those of them that are marks of PerfDBs."""
        return (item for item in self.objects() if kind_of(item.key) == OWNERS)

    def now_s(self) -> float:
        """The time (Unix) by which ``stored_s`` is told; that of a store which has a clock of its own."""
        return time.time()

    def tidy(self, grace_s: float) -> None:  # noqa: B027 - most leave nothing behind
        """Remove what interrupted puts have left behind, if it is older than the grace time."""


STORES: Registry[type[Store]] = Registry(
    "artifact store",
    "inferbench.stores",
    {
        "gridfs": "inferbench_tasks.stores.gridfs_store:GridFSStore",
        "file": "inferbench_tasks.stores.folder_store:FolderStore",
        "s3": "inferbench_tasks.stores.object_store:ObjectStore",
        "gs": "inferbench_tasks.stores.object_store:GoogleStore",
    },
)


def store_url() -> str:
    """The URL of the store that this host puts artifacts into."""
    return os.environ.get(ARTIFACTS) or DEFAULT_URL


def open_store(url: str, db: PerfDB) -> Store:
    """The store of a URL. InputError for what is no URL of one, MissingExtraError where a part is not installed."""
    match = _SCHEME.match(url)
    if match is None:
        raise InputError(
            f"{ARTIFACTS} is {url[:100]!r}; a URL is needed, such as gridfs:, file:///shared, s3://bucket"
        )
    kind = STORES.load(match[1], ARTIFACTS)
    if kind.extra:
        from inferbench_tasks import extras

        extras.require(kind.extra)
    return kind(url, db)
