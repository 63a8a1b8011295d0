"""What a server of ours is told, as one JSON file; the same file is kept with the run."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from inferbench_tasks.contracts.handles import Processing, TensorSpec

#: Beside the address: the sources whose bytecode a server in the sandbox could not write.
LACKING = "lacking.json"
#: The variable of a server's environment with the secret that each request has to have; without it none needs one.
SECRET = "INFERBENCH_SERVER_SECRET"  # noqa: S105 - its name


class Batching(BaseModel):
    """Dynamic batching; see ``submission.schema.BatchingSpec``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_batch_size: int = Field(ge=1)
    max_delay_ms: float = Field(ge=0)
    preferred_batch_sizes: tuple[int, ...] = ()


class Tracing(BaseModel):
    """What is told of requests that ask to be traced, in the file ``path``, which is written when the server ends.

    ``framework``: the runs of the runtime too. ``layers``: what the runtime itself tells of its layers, in a session
    that is instrumented for it. ``library``: what these ran too, which comes with the layers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    framework: bool = False
    layers: bool = False
    library: bool = False


class ServerConfig(BaseModel):
    """One model behind one server process.

    ``http_port``/``grpc_port``: 0 lets the kernel choose, None opens no such port. The server writes the
    ports that it got into ``address_path`` as soon as they are bound. ``warmup_runs`` inferences are done
    before the model counts as ready.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    engine: str
    #: The distribution whose version is told as the runtime's.
    runtime_package: str | None = None
    model_name: str
    model_version: str = "1"
    model_path: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    #: How many rows each request has to have; None: any number.
    batch_size: int | None = None
    address_path: str
    host: str = "127.0.0.1"
    http_port: int | None = 0
    grpc_port: int | None = None
    grpc_service: Literal["kserve", "tfs"] = "kserve"
    device: str = "cpu"
    threads: int = 1
    instances: int = 1
    batching: Batching | None = None
    warmup_runs: int = 0
    max_request_bytes: int = 256 * 2**20
    engine_settings: dict[str, Any] = {}
    #: Processors that run here; ``inputs`` and ``outputs`` above are the model's own, clients see those in here.
    processing: Processing | None = None
    tracing: Tracing | None = None
    #: The key of the one region of shared memory that inputs may lie in; None: none may.
    shared_memory: str | None = None
