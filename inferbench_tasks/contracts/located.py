"""Paths that travel: on their way between hosts a digest and a name stand for them.

A field of type ``LocatedPath`` is an absolute path wherever a stage uses it. Dumped for another stage it becomes a
reference, ``artifact:<SHA-256 of the manifest>/<name>``, if a carrier is in the context; validated with a carrier it
is the path of the same content on this host. Without a carrier it stays what it is.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Protocol

from pydantic import BeforeValidator, PlainSerializer, SerializationInfo, ValidationInfo

from inferbench_tasks.dotted import set_at, value_at

#: The key of a carrier in pydantic's context.
CARRIER = "carrier"
SCHEME = "artifact:"
_REFERENCE = re.compile(rf"{SCHEME}([0-9a-f]{{64}})/(.*)", re.DOTALL)


class Carrier(Protocol):
    """What takes files to other hosts, and brings them here. ``home``: this one's id (``settings.home_id``)."""

    @property
    def home(self) -> str: ...

    def send(self, path: str) -> str:
        """The reference that stands for a path of this host."""

    def send_files(self, folder: str, names: Sequence[str]) -> str:
        """The reference that stands for a folder with these of its files, and no others."""

    def receive(self, reference: str) -> str:
        """The path, on this host, that a reference stands for."""


def reference(digest: str, name: str) -> str:
    """What stands for the file or folder ``name`` of an artifact; "" is all of it."""
    return f"{SCHEME}{digest}/{name}"


def referred(value: Any) -> tuple[str, str] | None:
    """Digest and name of a reference; None for whatever is none."""
    match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    return (match[1], match[2]) if match else None


def references(value: Any) -> set[str]:
    """The digests of all references in a document."""
    if isinstance(value, dict):
        return set().union(*(references(part) for part in value.values()))
    if isinstance(value, (list, tuple)):
        return set().union(*(references(part) for part in value))
    found = referred(value)
    return {found[0]} if found else set()


def opened(document: dict[str, Any], unread: Iterable[str]) -> set[str]:
    """The digests of the references in a document that are not in its parts ``unread`` (dotted paths) alone."""
    rest = copy.deepcopy(document)
    for part in unread:
        if value_at(rest, part) is not None:
            set_at(rest, part, None)
    return references(rest)


def received(value: Any, info: ValidationInfo) -> Any:
    """The path on this host, where a carrier is in the context."""
    carrier: Carrier | None = (info.context or {}).get(CARRIER)
    return carrier.receive(value) if carrier and referred(value) else value


def sent(value: str, info: SerializationInfo) -> str:
    """The reference, where a carrier is in the context."""
    carrier: Carrier | None = (info.context or {}).get(CARRIER)
    return carrier.send(value) if carrier and value and not referred(value) else value


LocatedPath = Annotated[str, BeforeValidator(received), PlainSerializer(sent, return_type=str)]
