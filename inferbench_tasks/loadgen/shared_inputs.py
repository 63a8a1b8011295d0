"""The inputs of all requests in one region of shared memory: where each lies, and how they come there.

``load.transport: shared_memory``. The samples are written once, before the load; a request then says only where its own
lie. All samples of an input lie one behind the other, and behind the last the first ones once more: so the samples of
a request, which are neighbours, the last ones followed by the first, are always one stretch.

Answers come over the network as ever: of what is classified or detected they are a hundredth of the inputs, and each is
checked as it comes, which in shared memory would need a look into each slot before it is used again.
"""

from __future__ import annotations

import logging
import mmap
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from inferbench_tasks.clients.shared_memory import register, unregister
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError, LoadError
from inferbench_tasks.protocols.datatypes import datatype_of
from inferbench_tasks.protocols.rows_of_one import with_axis
from inferbench_tasks.protocols.shared_memory import PlacedTensor, path_of
from inferbench_tasks.requests.ragged import is_ragged

Arrays = Mapping[str, NDArray[Any]]

log = logging.getLogger(__name__)

#: As much as a sender holds of prebuilt requests over the network (``loadgen.payloads``).
MAX_BYTES = 256 * 2**20
#: Each input begins at a multiple of this, as arrays in memory do.
_ALIGNED = 64
_FIELD = "load.transport"


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SharedInput(_Data):
    """One input of the model: ``shape`` of a sample, ``offset`` of the first one, and from each to the next, bytes."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    offset: int
    sample_bytes: int


class SharedInputs(_Data):
    """A region with so many different ``samples``, for requests of ``largest`` of them at most."""

    key: str
    byte_size: int
    samples: int
    largest: int
    inputs: tuple[SharedInput, ...]

    def tensors(self, first: int, rows: int) -> list[PlacedTensor]:
        """Those of a request with ``rows`` samples from the ``first`` on."""
        return [
            PlacedTensor(
                each.name, each.datatype, (rows, *each.shape), self.key,
                each.offset + first * each.sample_bytes, rows * each.sample_bytes,
            )
            for each in self.inputs
        ]  # fmt: skip


def check_shareable(inputs: Arrays) -> None:
    """InputError where samples have no fixed place: texts, and arrays of different sizes."""
    for name, array in inputs.items():
        if is_ragged(array) or array.dtype.kind not in "biuf":
            what = "samples of different sizes" if is_ragged(array) else "texts"
            raise InputError(
                f"input {name} has {what}, which have no fixed place in shared memory; use transport: network",
                field=_FIELD,
            )


def layout(inputs: Arrays, key: str, largest: int, *, rows_of_one: bool = False) -> SharedInputs:
    """Where the samples lie; the same for the same arguments. ``largest``: the most samples of a request.

    InputError for what can't be shared, or where not even the samples of one request fit into ``MAX_BYTES``.
    """
    check_shareable(inputs)
    arrays = with_axis(inputs) if rows_of_one else inputs
    sample_bytes = {name: array.nbytes // len(array) for name, array in arrays.items()}
    room = (MAX_BYTES - _ALIGNED * len(arrays)) // max(1, sum(sample_bytes.values())) - (largest - 1)
    samples = min(len(next(iter(arrays.values()))), room)
    if samples < 1:
        raise InputError(
            f"{largest} samples of {sum(sample_bytes.values()):,} bytes are more than the {MAX_BYTES >> 20} MiB that "
            "requests have in shared memory; send fewer in each, or use transport: network",
            field=_FIELD,
        )
    placed, at = [], 0
    for name, array in arrays.items():
        size = sample_bytes[name]
        shape = tuple(array.shape[1:])
        datatype = datatype_of(array.dtype.name)
        placed.append(SharedInput(name=name, datatype=datatype, shape=shape, offset=at, sample_bytes=size))
        at += -(-size * (samples + largest - 1) // _ALIGNED) * _ALIGNED
    return SharedInputs(key=key, byte_size=max(at, 1), samples=samples, largest=largest, inputs=tuple(placed))


def write(shared: SharedInputs, inputs: Arrays) -> None:
    """Fill the region, whose file the server's start has made.

    LoadError where it is not there (the server runs elsewhere, or has ended) or is not ours alone; InputError where
    the machine has no room for it.
    """
    try:
        fd = os.open(path_of(shared.key), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise LoadError(
            f"The shared memory of the requests is not there ({error.strerror}): their server has ended, or runs on "
            "another host"
        ) from error
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o077:
            raise LoadError("The shared memory of the requests is open to other users; it is not used")
        try:
            os.posix_fallocate(fd, 0, shared.byte_size)  # here, and not as a signal while it is written
        except OSError as error:
            raise InputError(
                f"{shared.byte_size:,} bytes of shared memory for the requests can't be had ({error.strerror}); make "
                f"{path_of(shared.key).parent} larger, send fewer or smaller samples, or use transport: network",
                field=_FIELD,
            ) from error
        with mmap.mmap(fd, shared.byte_size) as region:
            rows = np.arange(shared.samples + shared.largest - 1) % shared.samples
            for each in shared.inputs:
                array = inputs[each.name]
                for at, row in enumerate(rows.tolist()):
                    start = each.offset + at * each.sample_bytes
                    region[start : start + each.sample_bytes] = np.ascontiguousarray(array[row]).tobytes()
    finally:
        os.close(fd)


@contextmanager
def registered(shared: SharedInputs, endpoint: Endpoint) -> Iterator[None]:
    """The region as the server's, for as long as it is asked from."""
    unregister(endpoint, shared.key)  # of a load that was killed
    register(endpoint, shared.key, shared.byte_size)
    try:
        yield
    finally:
        try:
            unregister(endpoint, shared.key)
        except LoadError as error:  # it may have died; its end removes the region
            log.warning("shared memory was not unregistered: %s", error)
