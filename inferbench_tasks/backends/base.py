"""A serving backend: which protocol it speaks, and how it is configured and started.

A backend starts nothing itself: ``prepare`` writes its configuration and says what to start, a launcher
(``launchers/``) does it, a probe (``backends/probes/``) asks over its protocol. The same three work for
every backend; see ``docs/how-to/add-a-backend.md``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from inferbench_tasks.backends.environments import Environment
from inferbench_tasks.backends.other_runtimes import Runtime
from inferbench_tasks.backends.probes.base import Probe
from inferbench_tasks.contracts.drawn import apart
from inferbench_tasks.contracts.handles import Endpoint, ModelArtifact, Processing
from inferbench_tasks.contracts.token_counters import TokenCounters
from inferbench_tasks.formats.stored_precision import FULL
from inferbench_tasks.launchers.base import Launch
from inferbench_tasks.registry import Registry
from inferbench_tasks.servers.config import Tracing
from inferbench_tasks.submission.schema import READY_TIMEOUT_S, ServeSpec


@dataclass(frozen=True)
class Deployment:
    """What is to be served and how.

    ``folder`` is the server's own, made and empty of other attempts' addresses; ``cache_dir`` is kept
    between runs. ``client_batch_size`` is how many rows a request of the load will carry. ``port`` 0
    means any free port.
    """

    run_id: str
    model: ModelArtifact
    spec: ServeSpec
    folder: Path
    cache_dir: Path
    protocol: str = "http"
    client_batch_size: int = 1
    host: str = "127.0.0.1"
    port: int = 0
    #: Whether few enough requests come that the server may write down the moments of some (see ``Triton``).
    trace: bool = False
    #: Processors that run in the server; only for backends with ``server_processors``.
    processing: Processing | None = None
    #: Whether inputs lie in a region of shared memory; only for backends with ``shared_memory``.
    shared_memory: bool = False
    #: What the server is to tell of traced requests; only for backends with ``traced_levels``.
    tracing: Tracing | None = None
    #: Where on this host it is to send its own spans to; only for backends that send them (``sends_spans``).
    spans_port: int | None = None
    #: The address that it binds, where that is not the launcher's choice, and the secret that each request has to have;
    #: only for backends that are ``guarded``.
    listens: str = ""
    secret: str = field(default="", repr=False)
    #: The cores that a process of it may run on; empty: those of who starts it.
    cores: tuple[int, ...] = ()
    #: The version of the backend's ``package`` that has to run: the one that a job names, for backends with
    #: ``other_versions``, or that its stack's image brings. Whoever tells no version while it runs does not look at it.
    runtime: Runtime | None = None
    #: In which precision the job asks to compute (``convert.precision``); the model's own is that of its weights.
    precision: str = FULL

    @property
    def model_name(self) -> str:
        """The model's name as it stands in URLs and paths."""
        return re.sub(r"[^A-Za-z0-9_.-]", "_", self.model.name)


@dataclass(frozen=True)
class Prepared:
    """``endpoint()`` is None until the server's address is known; ``settings`` go into the result, and identify the
    configuration. ``drawn``: what this start merely drew, as free ports and the run's files, under any names; of the
    settings those that ``contracts.drawn`` lists go there by themselves. ``metrics_port`` there: of its metrics.
    ``shared_memory``: the key of the region that the server reads inputs from, see ``protocols.shared_memory``.
    """

    launch: Launch
    endpoint: Callable[[], Endpoint | None]
    settings: dict[str, Any]
    shared_memory: str | None = None
    drawn: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings, drawn = apart(self.settings)
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "drawn", drawn | self.drawn)


class Backend(ABC):
    """One serving system. The class attributes are its card in ``inferbench backends``."""

    kind: ClassVar[str]
    #: The distribution that brings its runtime, as its framework's manifest is called; None where no package does.
    package: ClassVar[str | None] = None
    #: Whether ``version()`` is that of ``package``: not of a server that is numbered otherwise than what brings it.
    versioned_by_package: ClassVar[bool] = True
    #: Whether other versions of ``package`` than the installed one serve, from environments of their own; the module
    #: that it brings is called as it is.
    other_versions: ClassVar[bool] = False
    formats: ClassVar[tuple[str, ...]]
    #: Protocols that the load can speak to it; see ``handles.Endpoint``.
    protocols: ClassVar[tuple[str, ...]]
    launchers: ClassVar[tuple[str, ...]] = ("process",)
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    batching: ClassVar[bool] = True
    #: Whether it serves models that take exactly so many samples in each call.
    fixed_batches: ClassVar[bool] = False
    #: Whether its gRPC is TensorFlow Serving's Predict instead of KServe v2.
    tfs_predict: ClassVar[bool] = False
    #: Whether it answers texts with streams of tokens (OpenAI's API), and takes no tensors.
    streams: ClassVar[bool] = False
    #: Whether it has slots for streams: ``serve.slots``, ``context_tokens`` and ``prefix_cache``.
    slots: ClassVar[bool] = False
    #: Whether it serves random weights in place of a model's own: ``serve.dummy_weights``.
    dummy_weights: ClassVar[bool] = False
    #: The tokens of a slot, prompt and answer together, unless ``serve.context_tokens`` says otherwise.
    slot_tokens: ClassVar[int | None] = None
    #: Whether a request may ask it for all its tokens, whatever word ends the text (``ignore_eos``).
    ignores_eos: ClassVar[bool] = False
    #: How long it may take until its model answers, unless ``serve.ready_timeout_s`` says otherwise.
    ready_timeout_s: ClassVar[float] = READY_TIMEOUT_S
    #: Which of its metrics (at the ``metrics_port`` that it drew) count tokens; None where none does.
    token_counters: ClassVar[TokenCounters | None] = None
    #: Whether pre- and post-processing can run inside the server.
    server_processors: ClassVar[bool] = False
    #: Whether it reads inputs from system shared memory, where ``Deployment.shared_memory`` asks for that.
    shared_memory: ClassVar[bool] = False
    #: Whether several of it can stand behind a balancer: all that it tells it tells with its answers and by its
    #: statistics, so that nothing is of one of them only.
    replicas: ClassVar[bool] = False
    #: Whether its HTTP and gRPC take a secret with each request, and answer nobody else, where ``Deployment.secret`` is
    #: one.
    guarded: ClassVar[bool] = False
    #: Whether every answer carries the server's own times of that request (queue, inference, processing), in the
    #: headers or trailing metadata of ``clients.http`` and ``clients.http2``.
    tells_spans: ClassVar[bool] = False
    #: The levels below the application that it can tell of single requests: "model", "framework", "layer", "library".
    traced_levels: ClassVar[tuple[str, ...]] = ()
    #: How it sends spans of its own, of every request, to ``Deployment.spans_port``: OTLP as JSON over HTTP, or as
    #: protobuf over gRPC; None: what it tells it writes into a file, or it tells nothing.
    sends_spans: ClassVar[Literal["otlp_json", "otlp_grpc"] | None] = None

    @classmethod
    def levels_of(cls, model_format: str) -> tuple[str, ...]:
        """Those of ``traced_levels`` that it tells of models in that format; all of them by default."""
        return cls.traced_levels

    @classmethod
    def not_deeper(cls, model_format: str) -> str:
        """Why it tells of no deeper level than ``levels_of``, and what helps; "" where nothing is to be said."""
        return ""

    @classmethod
    @abstractmethod
    def unavailable(cls, launcher: str, device: str = "cpu") -> str | None:
        """Why it can't run here by that launcher; None if it can. Looks, installs nothing."""

    @abstractmethod
    def version(self) -> str:
        """The serving system's version, as it really runs."""

    @abstractmethod
    def label(self) -> str:
        """What stands beside its figures, for people: it must not promise what does not run."""

    @abstractmethod
    def prepare(self, deployment: Deployment) -> Prepared:
        """Write the configuration under ``deployment.folder`` and say what to start."""

    def environment(self) -> Environment | None:
        """The environment of pinned hashes that it is made in on first use; None where it runs in ours."""
        return None

    def require_reads(self, path: Path, model_format: str, folder: Path, words: str) -> None:  # noqa: B027 - most know
        """InputError where the runtime in the environment ``folder`` (``words``: its name and version) can't read
        models of that form; only for backends with ``other_versions``. What can't be told beforehand the server tells.
        """

    def image(self, spec: ServeSpec) -> str | None:
        """The container image; None where the backend has none."""
        return spec.image

    def on_live(self, endpoint: Endpoint, timeout_s: float) -> None:  # noqa: B027 - most need nothing here
        """Called once the server answers, before its model is waited for; may load the model, and block."""

    def on_ready(self) -> None:  # noqa: B027 - most need nothing here
        """Called once the model is ready and the start was timed, before the first request."""

    def model_load_ms(self, log: str) -> float | None:
        """How long the model took to load by the end of the server's log, for a server that answers only then."""
        return None

    def statistics(self, probe: Probe) -> dict[str, Any] | None:
        """What the server counted: at least ``inference_count`` (rows) and ``execution_count`` (runs).

        By default the entry of KServe's statistics extension; None where the server tells nothing.
        """
        return probe.statistics()

    def ready(self, probe: Probe) -> bool:
        """Whether the model can be asked; by the protocol's own words, where the server knows them."""
        return probe.ready()

    def endpoint_protocol(self, protocol: str) -> str:
        """The endpoint's protocol for a load that asks for "http" or "grpc"."""
        return "grpc_tfs" if self.tfs_predict and protocol == "grpc" else protocol


def thread_env(threads: int) -> dict[str, str]:
    """The threads' settings of the usual runtimes; idle threads sleep instead of spinning."""
    count = str(threads)
    return {
        "OMP_NUM_THREADS": count,
        "OMP_WAIT_POLICY": "PASSIVE",
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "TF_NUM_INTRAOP_THREADS": count,
        "TF_NUM_INTEROP_THREADS": "1",
    }


BACKENDS: Registry[type[Backend]] = Registry(
    "serving backend",
    "inferbench.backends",
    {
        "onnxruntime": "inferbench_tasks.backends.onnxruntime:OnnxRuntime",
        "torchscript": "inferbench_tasks.backends.torchscript:TorchScript",
        "torch_export": "inferbench_tasks.backends.torch_export:TorchExport",
        "torchserve": "inferbench_tasks.backends.torchserve:TorchServe",
        "tensorrt": "inferbench_tasks.backends.tensorrt:TensorRt",
        "tflite": "inferbench_tasks.backends.tflite:TfLite",
        "openvino": "inferbench_tasks.backends.openvino:OpenVino",
        "tfs_protocol": "inferbench_tasks.backends.tfs_protocol:TfsProtocol",
        "mlserver": "inferbench_tasks.backends.mlserver:MLServer",
        "tensorflow_serving": "inferbench_tasks.backends.tensorflow_serving:TensorFlowServing",
        "triton": "inferbench_tasks.backends.triton:Triton",
        "llama_cpp": "inferbench_tasks.backends.llama_cpp:LlamaCpp",
        "vllm": "inferbench_tasks.backends.vllm:Vllm",
        "llm_stand_in": "inferbench_tasks.backends.llm_stand_in:LlmStandIn",
    },
)
