"""Asking a live backend over its protocol, one request at a time: for readiness, checks and statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.protocols.bounds import answer_bytes
from inferbench_tasks.registry import Registry

if TYPE_CHECKING:  # every command that checks a submission reads this module; few of them compute
    from numpy.typing import NDArray

#: Name -> array.
Arrays: TypeAlias = "Mapping[str, NDArray[Any]]"


def max_answer_bytes() -> int:
    """The most bytes of an answer that a probe reads; it does not know the model's outputs."""
    return max(64 << 20, answer_bytes())


class Refused(Exception):
    """The server answered, and the answer is an error."""


class Probe(Protocol):
    """A connection to one endpoint. Every call ends after ``timeout_s``: OSError, or Refused."""

    def live(self) -> bool:
        """Whether the server answers at all; False while nothing listens."""
        ...

    def ready(self) -> bool:
        """Whether the MODEL can be asked."""
        ...

    def infer(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """The outputs by name. Refused carries the server's own words."""
        ...

    def statistics(self) -> dict[str, Any] | None:
        """The model's entry of KServe's statistics extension; None where the server has none."""
        ...

    def close(self) -> None:
        """End the connection to the server."""
        ...


class ProbeFactory(Protocol):
    """Makes the probe of an endpoint."""

    def __call__(self, endpoint: Endpoint, timeout_s: float) -> Probe: ...


PROBES: Registry[ProbeFactory] = Registry(
    "wire protocol",
    "inferbench.probes",
    {
        "http": "inferbench_tasks.backends.probes.kserve_http:KserveHttp",
        "grpc": "inferbench_tasks.backends.probes.kserve_grpc:KserveGrpc",
        "grpc_tfs": "inferbench_tasks.backends.probes.tfs_grpc:TfsGrpc",
        "openai": "inferbench_tasks.backends.probes.openai:OpenAIProbe",
    },
)


def open_probe(endpoint: Endpoint, timeout_s: float = 30.0) -> Probe:
    """A probe for an endpoint's protocol."""
    return PROBES.load(endpoint.protocol)(endpoint, timeout_s)


def as_array(value: Any) -> NDArray[Any]:
    """A contiguous array, as it goes on the wire."""
    import numpy as np

    return np.ascontiguousarray(value)
