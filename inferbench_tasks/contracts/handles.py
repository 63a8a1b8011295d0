"""The small JSON values that stages hand to each other: handles to what lies in files or in PerfDB.

Bulk never travels through a handle. A ``LocatedPath`` is absolute where a stage uses it; between stages that may run on
different hosts a digest and a name stand for it (``located.py``).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_serializer,
)

from inferbench_tasks.contracts.located import LocatedPath, received, sent


class Handle(BaseModel):
    """Frozen, strict on unknown keys, and plain JSON when dumped."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class TensorSpec(Handle):
    """One input or output of a model. ``shape`` leaves out the batch axis; -1 is a dynamic size.

    ``dtype`` is numpy's name ("float32", "int64"). ``below``: of an input of integers, the bound of those that mean
    something (the rows of the table that they choose from); None where it is not known.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    below: int | None = None

    @model_serializer(mode="wrap")
    def _short(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What is not known is left out: documents and keys of before stay what they were."""
        document: dict[str, Any] = dump(self)
        return {name: value for name, value in document.items() if name != "below" or value is not None}


class ModelArtifact(Handle):
    """A model in one format, as files on disk.

    ``digest`` is the SHA-256 over its files. ``parameters`` counts weights; ``flops`` and ``bytes``
    are per sample at batch 1 (a multiply-add counts as 2 FLOP; bytes: weights and activations read
    and written, unfused); None where not known, and then ``costs_reason`` says why.
    ``task`` is e.g. "image-classification"; ``accuracy_ratio`` that of the source model on its
    held-out test set, ``accuracy_reason`` why there is none whatever the data (random weights).
    ``batch_size``: how many samples each call takes, None: any number. ``adapted``: what was done
    to a file of the user's so that it can be served, in words.
    """

    name: str
    version: int = 1
    framework: str
    format: str
    precision: str = "fp32"
    path: LocatedPath
    digest: str
    task: str | None = None
    dataset: str | None = None
    licence: str | None = None
    parameters: int | None = None
    flops: int | None = None
    bytes: int | None = None
    costs_reason: str | None = None
    accuracy_ratio: float | None = None
    accuracy_reason: str | None = None
    batch_size: int | None = None
    adapted: tuple[str, ...] = ()
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


class ProcessorStep(Handle):
    """One processor with its settings; paths in them are absolute."""

    kind: str
    settings: dict[str, Any] = {}

    @field_validator("settings")
    @classmethod
    def _received(cls, settings: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        return {name: received(value, info) for name, value in settings.items()}

    @field_serializer("settings")
    def _sent(self, settings: dict[str, Any], info: SerializationInfo) -> dict[str, Any]:
        path = settings.get("path")
        return {**settings, "path": sent(path, info)} if isinstance(path, str) else settings


class Processing(Handle):
    """The processors of a run. On the server's side, also what requests and answers look like there.

    ``sent_path``: an ``.npz`` of raw samples (see ``requests.ragged``), ``answered_path`` the source model's
    answers after the last processor; ``sent`` and ``answered`` describe them. None, and empty, on the client's side.
    ``client_ms``: median time per sample of each processor on this machine, measured before the load. ``raw_path``: raw
    samples that the client processes while the load runs; None if its requests begin as tensors.
    """

    side: Literal["client", "server"]
    before: tuple[ProcessorStep, ...] = ()
    after: tuple[ProcessorStep, ...] = ()
    sent_path: LocatedPath | None = None
    answered_path: LocatedPath | None = None
    sent: tuple[TensorSpec, ...] = ()
    answered: tuple[TensorSpec, ...] = ()
    client_ms: dict[str, float] = {}
    raw_path: LocatedPath | None = None


class DataManifest(Handle):
    """Of which version of a data set samples are; ``digest``: of its manifest."""

    name: str
    version: str
    digest: str


class RequestSet(Handle):
    """The samples that the requests carry, and the source model's answers to them.

    ``path`` is an ``.npz`` with one array per input, named as the input, first axis = samples;
    ``reference_path`` likewise for the outputs; ``labels_path`` an ``.npy`` of int64 class ids or None.
    ``samples_digest``: of those that ``evaluate`` asks, which samples of which data they are (``stages.evaluated``);
    ``manifest``: of that data, None where it has none.
    """

    path: LocatedPath
    reference_path: LocatedPath
    labels_path: LocatedPath | None = None
    samples: int
    digest: str
    dataset: str | None = None
    samples_digest: str | None = None
    manifest: DataManifest | None = None
    processing: Processing | None = None
    #: Of prompts: the model file by whose tokenizer the server counts; None where that can't be read here.
    vocabulary_path: LocatedPath | None = None

    @property
    def sent_path(self) -> str:
        """What the requests carry over the wire: tensors, or raw samples for the server's processors."""
        return (self.processing and self.processing.sent_path) or self.path

    @property
    def answered_path(self) -> str:
        """The answers that are expected over the wire."""
        return (self.processing and self.processing.answered_path) or self.reference_path

    @property
    def in_server(self) -> Processing | None:
        """The processors that its server runs; None where it runs none."""
        return self.processing if self.sent_path != self.path else None

    def as_served(self, model: ModelArtifact) -> ModelArtifact:
        """The model with the inputs and outputs that a client of its server sees."""
        if self.processing is None or self.processing.sent_path is None:
            return model
        return model.model_copy(update={"inputs": self.processing.sent, "outputs": self.processing.answered})


class Endpoint(Handle):
    """Address and protocol of a live backend.

    ``protocol``: "http" = KServe v2 over HTTP with the binary-tensor extension, "grpc" = KServe v2
    over gRPC, "grpc_tfs" = TensorFlow Serving's Predict, "openai" = OpenAI's API of language models, as streams.
    """

    protocol: Literal["http", "grpc", "grpc_tfs", "openai"]
    host: str
    port: int
    model_name: str
    model_version: str = ""
    rows_of_one: bool = False
    """It takes a sample's single number as a row of one, [n, 1] (``protocols.rows_of_one``)."""
    secret: str = Field("", repr=False)
    """What each request has to have behind ``Bearer``, in HTTP's header ``Authorization`` or in gRPC's metadata; "":
    nothing."""
    metadata_key: str = "authorization"
    """Of gRPC's metadata: where it stands."""

    @model_serializer(mode="wrap")
    def _short(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what there is not: documents of before stay what they were."""
        document: dict[str, Any] = dump(self)
        usual = {"secret": "", "metadata_key": "authorization"}
        return {name: value for name, value in document.items() if name not in usual or value != usual[name]}

    @property
    def url(self) -> str:
        """The address as ``host:port``, the form that tritonclient takes."""
        return f"{self.host}:{self.port}"


class ServerHandle(Handle):
    """A running server, enough to watch it and to end it with everything it started.

    ``pgid`` equals ``pid`` (each server leads its own session); ``started_ns`` is the process's
    creation time (psutil's, in ns), so that a recycled pid is never mistaken for it. ``sandbox``: what keeps it from
    the rest of the machine, for the result. ``address``: where it is asked, where that is not the address that it
    binds; ``image_id`` of a container; ``uid``: the user that a process has for itself, see ``sandbox.account``.
    """

    launcher: Literal["process", "container"]
    pid: int
    started_ns: int
    log_path: str
    config_path: str
    container_id: str | None = None
    sandbox: str = ""
    address: str | None = None
    image_id: str | None = None
    uid: int | None = None


class ColdStart(Handle):
    """Where the time from the start to the first answer went, ms."""

    process_ms: float
    model_load_ms: float
    first_answer_ms: float
    total_ms: float


class BackendInfo(Handle):
    """The serving system as it really ran; goes into the result. ``drawn``: see ``contracts.drawn``."""

    kind: str
    version: str
    launcher: str
    label: str
    settings: dict[str, Any]
    drawn: dict[str, Any] = {}
