"""Some of the files below a folder that is nobody's cache: read in place where they lie, and brought to other hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from pydantic import (
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.located import CARRIER, Carrier, LocatedPath, referred


class LocatedFiles(Handle):
    """``listing``: a JSON file with their names, below ``folder``, in their order.

    On its way to another stage ``folder`` is a reference to these files alone. On the host that sent it the folder is
    what it was (``at``): the storage that a user laid files on may be what is measured, and equal files may lie on two.
    On any other it is where they were brought to. ``home``: that host's.
    """

    folder: str
    listing: LocatedPath
    at: str = ""
    home: str = ""

    @property
    def names(self) -> list[str]:
        """In the order of the listing, where this host can read it."""
        return cast(list[str], json.loads(Path(self.listing).read_text()))

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
