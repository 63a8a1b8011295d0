"""Part of ``load``: the inputs of its requests in shared memory, where ``load.transport`` asks for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from inferbench_tasks.backends.first_answer import Arrays, load_samples
from inferbench_tasks.backends.probes.base import Refused, open_probe
from inferbench_tasks.clients.shared_memory import infer
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.shared_inputs import SharedInputs, registered, write
from inferbench_tasks.stages.load_order import Input, shared_layout
from inferbench_tasks.submission.schema import SHARED_MEMORY

#: Bound on max|by shared memory - over the network| / max|over the network| of the answers of one server to one input:
#: they are equal but for the order of additions.
_SAME_RATIO = 1e-3


@contextmanager
def inputs_in_memory(inp: Input, endpoint: Endpoint) -> Iterator[None]:
    """Write the inputs, have the server map them, and check that it reads what was written; nothing for other loads.

    The file goes with the server (``Launch.leftovers``), whatever ends first. LoadError where the server does not take
    it, or answers another thing than over the network.
    """
    if inp.job.traffic.transport != SHARED_MEMORY:
        yield
        return
    samples = load_samples(inp.generate.requests.sent_path)
    shared = shared_layout(inp, samples)
    assert shared is not None
    write(shared, samples)
    with registered(shared, endpoint):
        _check(shared, samples, endpoint)
        yield


def _check(shared: SharedInputs, samples: Arrays, endpoint: Endpoint) -> None:
    """The first, the middle and the last request, whose samples may be followed by the first ones."""
    probe = open_probe(endpoint)
    try:
        for first in sorted({0, shared.samples // 2, shared.samples - 1}):
            rows = np.arange(first, first + shared.largest) % shared.samples
            expected = probe.infer({name: array[rows] for name, array in samples.items()})
            compare(infer(endpoint, shared.tensors(first, shared.largest)), expected, first)
    except (Refused, OSError) as error:
        raise LoadError(
            f"A request over the network, to compare with shared memory, failed: {error}"
        ) from error
    finally:
        probe.close()


def compare(answer: Arrays, expected: Arrays, first: int) -> None:
    """LoadError unless an answer by shared memory is that over the network; ``first``: the request's first sample."""
    for name, want in expected.items():
        got = answer.get(name)
        if got is None or got.shape != want.shape:
            shape = "no such output" if got is None else f"the shape {list(got.shape)}"
            raise LoadError(f"{_where(name, first)} has {shape}; over the network it is {list(want.shape)}")
        if want.dtype.kind != "f":
            if not np.array_equal(got, want):
                raise LoadError(f"{_where(name, first)} differs from that over the network")
            continue
        bound = _SAME_RATIO * float(np.abs(want[np.isfinite(want)]).max(initial=0.0))
        if not np.allclose(got, want, rtol=0.0, atol=bound, equal_nan=True):
            raise LoadError(
                f"{_where(name, first)} differs from that over the network by more than {bound:.3g}"
            )


def _where(name: str, first: int) -> str:
    return f"Output {name} of the request with sample {first} in shared memory"
