"""Some of the files below a folder that is nobody's cache: read in place where they lie, and brought to other hosts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import (
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.located import CARRIER, Carrier, LocatedPath, referred
from inferbench_tasks.errors import StorageError
from inferbench_tasks.strangers_folder import MOST_BYTES, read


class LocatedFiles(Handle):
    """``listing``: a JSON file with their names, below ``folder``, in their order; ``listing_bytes``,
    ``listing_sha256``: what it was when it was written (0 and "": of before that was told).

    On its way to another stage ``folder`` is a reference to these files alone. On the host that sent it the folder is
    what it was (``at``): the storage that a user laid files on may be what is measured, and equal files may lie on two.
    On any other it is where they were brought to. ``home``: that host's.
    """

    folder: str
    listing: LocatedPath
    at: str = ""
    home: str = ""
    listing_bytes: int = 0
    listing_sha256: str = ""

    @classmethod
    def listed(cls, names: Sequence[str], folder: Path, listing: Path) -> LocatedFiles:
        """These files below a folder, once their names are written down."""
        content = json.dumps(list(names)).encode()
        listing.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        return cls(
            folder=str(folder), listing=str(listing), listing_bytes=len(content), listing_sha256=digest
        )

    @property
    def names(self) -> list[str]:
        """In the order of the listing, where this host can read it. OSError where it can't; StorageError where it is
        not what was written, or names what is not below the folder.
        """
        content = read(Path(self.listing), self.listing_bytes or MOST_BYTES)
        if self.listing_sha256 and hashlib.sha256(content).hexdigest() != self.listing_sha256:
            raise StorageError(
                f"{self.listing} is not the list of files that was written: it was changed since, and none of its "
                "files is used. Clear the job's tasks from generate on"
            )
        try:
            names = json.loads(content)
        except ValueError as error:
            raise StorageError(f"{self.listing} is no list of files: {error}") from error
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise StorageError(f"{self.listing} is no list of files")
        for name in names:
            if any(part in ("", ".", "..") for part in name.split("/")):
                raise StorageError(
                    f"{self.listing} names {name[:200]!r}, which is no file below {self.folder}"
                )
        return names

    @property
    def paths(self) -> list[str]:
        """Of the files on this host, in the order of the listing."""
        return [f"{self.folder}/{name}" for name in self.names]

    @property
    def brought(self) -> bool:
        """Whether these are copies of files that lie on another host."""
        return bool(self.at) and self.folder != self.at

    @model_serializer(mode="wrap")
    def _sent(self, dump: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        document: dict[str, Any] = dump(self)
        carrier: Carrier | None = (info.context or {}).get(CARRIER)
        if carrier is not None and not referred(self.folder):
            folder = carrier.send_files(self.folder, self.names)
            document |= {"folder": folder, "at": self.folder, "home": carrier.home}
        return document

    @model_validator(mode="before")
    @classmethod
    def _received(cls, value: Any, info: ValidationInfo) -> Any:
        carrier: Carrier | None = (info.context or {}).get(CARRIER)
        if carrier is None or not isinstance(value, dict) or not referred(value.get("folder")):
            return value
        if value.get("home") == carrier.home:
            return {**value, "folder": value["at"]}
        return {**value, "folder": carrier.receive(value["folder"])}
