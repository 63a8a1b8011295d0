"""Inputs that lie in system shared memory (KServe v2's extension): the region that this server may read.

There is one, the file that its configuration names: no client can have it open another. It is mapped for reading only,
and a request's tensors are views of it, without a copy.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.protocols.problem import RequestProblem
from inferbench_tasks.protocols.shared_memory import BYTE_SIZE, EXTENSION, OFFSET, REGION, path_of

_WHERE = "shared memory"
#: Names that the one file may have at the same time: each is a mapping and an open file.
MOST = 16


@dataclass(frozen=True, slots=True)
class _Region:
    key: str
    offset: int
    byte_size: int
    file: int
    memory: mmap.mmap

    def document(self, name: str) -> dict[str, Any]:
        return {"name": name, "key": self.key, "offset": self.offset, "byte_size": self.byte_size}


class Regions:
    """What clients have registered, by the name that they gave it. ``key``: the only file that may be; None: none."""

    def __init__(self, key: str | None) -> None:
        self.key = key
        self._regions: dict[str, _Region] = {}

    @property
    def extensions(self) -> list[str]:
        """What the server's metadata name: the extension, where it was started for it."""
        return [] if self.key is None else [EXTENSION]

    def require(self) -> None:
        """RequestProblem where this server was not started for it."""
        if self.key is None:
            raise RequestProblem(f"{_WHERE}: this server was not started for it", status=404)

    def register(self, name: str, key: Any, offset: Any, byte_size: Any) -> None:
        """Map it; RequestProblem for another key, a name that is taken, or what does not lie within the file."""
        self.require()
        if key != self.key:
            raise RequestProblem(
                f"{_WHERE}: key {key!r:.80} is not the one that this server was started with"
            )
        if name in self._regions:
            raise RequestProblem(
                f"{_WHERE}: a region {name!r:.80} is registered already; unregister it first"
            )
        if len(self._regions) >= MOST:
            raise RequestProblem(f"{_WHERE}: {MOST} regions are registered, which are all that may be")
        if not (_size(offset) and _size(byte_size)) or byte_size < 1:
            raise RequestProblem(
                f"{_WHERE}: offset {offset!r:.40} and byte_size {byte_size!r:.40} given; whole numbers are needed, "
                "the size at least 1"
            )
        assert self.key is not None
        try:
            file = os.open(path_of(self.key), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            raise RequestProblem(f"{_WHERE}: {self.key} can't be opened: {error}") from error
        try:
            size = os.fstat(file).st_size
            if offset + byte_size > size:
                raise RequestProblem(
                    f"{_WHERE}: {byte_size} bytes from {offset} on are given, {self.key} has {size}"
                )
            memory = mmap.mmap(file, offset + byte_size, access=mmap.ACCESS_READ)
        except BaseException:
            os.close(file)
            raise
        self._regions[name] = _Region(self.key, offset, byte_size, file, memory)

    def unregister(self, name: str | None) -> None:
        """Forget it, or all of them for None; one that is not known is forgotten already.

        Requests under way keep what they read: the memory goes with the last view of it.
        """
        self.require()
        for each in [name] if name is not None else list(self._regions):
            if (region := self._regions.pop(each, None)) is not None:
                os.close(region.file)

    def status(self, name: str | None) -> list[dict[str, Any]]:
        """What is registered, or that of one name; RequestProblem where it is not."""
        self.require()
        if name is not None and name not in self._regions:
            raise RequestProblem(f"{_WHERE}: no region {name!r:.80} is registered", status=404)
        names = self._regions if name is None else (name,)
        return [self._regions[each].document(each) for each in names]

    def view(self, parameters: Mapping[str, Any], where: str) -> memoryview | None:
        """The bytes that a tensor's parameters name; None where they name none. RequestProblem for others than there
        are."""
        name = parameters.get(REGION)
        if name is None:
            return None
        region = self._regions.get(name) if isinstance(name, str) else None
        if region is None:
            raise RequestProblem(f"{where}.parameters.{REGION}: no region {name!r:.80} is registered")
        offset, size = parameters.get(OFFSET, 0), parameters.get(BYTE_SIZE)
        if not (_size(offset) and _size(size)) or offset + size > region.byte_size:
            raise RequestProblem(
                f"{where}.parameters: {size!r:.40} bytes from {offset!r:.40} on are given, the region {name:.80} has "
                f"{region.byte_size}"
            )
        # Whoever makes the file shorter would end this process: what lies behind its end can't be read.
        if os.fstat(region.file).st_size < region.offset + region.byte_size:
            raise RequestProblem(
                f"{where}: the file of the region {name:.80} was made shorter than the region"
            )
        start = region.offset + offset
        return memoryview(region.memory)[start : start + size]


#: Of a server that was not started for shared memory.
NO_REGIONS = Regions(None)


def refuse_output(parameters: Mapping[str, Any], where: str) -> None:
    """RequestProblem for an output that is to be written into shared memory, which is mapped for reading only."""
    if REGION in parameters:
        raise RequestProblem(f"{where}.parameters.{REGION}: outputs come over the network from this server")


def _size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62
