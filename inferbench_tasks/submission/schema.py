"""``kind: serving``: the whole of a submission, as data."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field, field_validator, model_validator

from inferbench_tasks.arrivals.base import ArrivalsSpec
from inferbench_tasks.contracts.device import CPU, DeviceSpec
from inferbench_tasks.contracts.replicas import balancing
from inferbench_tasks.contracts.sending_hosts import MOST as MOST_CLIENT_HOSTS
from inferbench_tasks.contracts.spec import (
    IMAGE_PATTERN,
    NETWORK_PATTERN,
    Count,
    RelativePath,
    Seconds,
    Slug,
    Spec,
)
from inferbench_tasks.contracts.stage_name import numbered
from inferbench_tasks.contracts.versions import MAX_LENGTH, readable
from inferbench_tasks.errors import InputError
from inferbench_tasks.submission.balancer import BalancerSpec, Spread
from inferbench_tasks.submission.base import DEFAULT_KIND, JobBase, NamedFile, SubmissionBase
from inferbench_tasks.submission.conversion import ConvertSpec
from inferbench_tasks.submission.evaluation import EvaluateSpec
from inferbench_tasks.submission.model import ModelSpec
from inferbench_tasks.submission.newer import NEWER
from inferbench_tasks.submission.part import in_parts
from inferbench_tasks.submission.processors import ProcessorsSpec
from inferbench_tasks.submission.prompt_parts import SharedPrefixSpec, TraceColumnsSpec
from inferbench_tasks.submission.share import ShareSpec, members
from inferbench_tasks.submission.sizes import SizeSpec
from inferbench_tasks.submission.slo import SloSpec
from inferbench_tasks.submission.systems import SystemSpec, SystemsSpec
from inferbench_tasks.submission.token_lengths import LengthsSpec
from inferbench_tasks.submission.traced import TraceSpec

#: Kinds of requests to language models, and what is said of each.
PROMPTED: dict[str, tuple[str, ...]] = {
    "prompts": ("input_tokens", "output_tokens", "shared_prefix", "salt", "turns", "think_time_ms"),
    "conversations": ("output_tokens", "salt", "think_time_ms"),
    "trace": ("salt", "columns", "block_tokens"),
}
PROMPT_FIELDS = tuple(dict.fromkeys(name for names in PROMPTED.values() for name in names))
_OF_FILES = ("files", "conversations", "trace")


class RequestsSpec(Spec):
    """What the requests carry."""

    kind: Literal["dataset", "files", "random", "prompts", "conversations", "trace"] = "dataset"
    """``dataset``: held-out samples of the model's own data set, seeded noise where it has none; ``files``: yours;
    ``random``: seeded noise; ``prompts``: English prose for language models, each prompt another one;
    ``conversations``: your own, JSON Lines with ``messages`` each; ``trace``: prose of the lengths of a recorded trace,
    in its order."""
    path: RelativePath | None = None
    """A file or folder of samples, or the file of conversations or of the trace, relative to the submission; with those
    kinds only."""
    samples: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    """Distinct samples to prepare; the load cycles through them in a seeded order. Of ``prompts``: as many as leave."""
    sizes: Annotated[tuple[SizeSpec, ...], Field(strict=False, min_length=1, max_length=64)] | None = None
    """Of ``random``: what free sizes of the model's inputs are; 16 unless given."""
    input_tokens: LengthsSpec | None = None
    """Of ``prompts``: how long they are, in tokens: exactly, as a GGUF model's tokenizer counts them where it is known;
    else aimed at by 1.3 a word; 200 unless given."""
    output_tokens: LengthsSpec | None = None
    """Of ``prompts``: how many tokens are asked for (``max_tokens``); 64 unless given."""
    shared_prefix: SharedPrefixSpec | None = None
    """Of ``prompts``: what many of them begin with, as with a system prompt; null: nothing."""
    salt: bool | None = None
    """Of ``prompts``: a word that is drawn for each run stands behind the shared prefix, so that no run finds another's
    cache; true unless given."""
    turns: LengthsSpec | None = None
    """Of ``prompts``: how many turns a conversation has, each sent with all that was said before; null: each prompt is
    by itself. Arrivals are then of conversations."""
    think_time_ms: LengthsSpec | None = None
    """Of conversations: from the end of an answer to the next turn, ms; null: none."""

    columns: TraceColumnsSpec | None = None
    """Of ``trace``: what its columns are called; Azure's, Mooncake's and ``input_tokens`` and ``output_tokens`` unless
    given."""
    block_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Of ``trace``: the tokens of a block that one of ``hash_ids`` stands for; 512 unless given, as Mooncake's."""

    @property
    def conversing(self) -> bool:
        """Whether requests are turns of conversations."""
        return self.turns is not None or self.kind == "conversations"

    @model_validator(mode="after")
    def _path_only_for_files(self) -> RequestsSpec:
        if (self.kind in _OF_FILES) != (self.path is not None):
            raise ValueError(f"path is needed with kind: {' or '.join(_OF_FILES)}, and only allowed there")
        for name in PROMPT_FIELDS:
            if getattr(self, name) is not None and name not in PROMPTED.get(self.kind, ()):
                able = " or ".join(kind for kind, names in PROMPTED.items() if name in names)
                raise ValueError(f"{name} goes with kind: {able} only")
        if self.sizes is not None and self.kind != "random":
            raise ValueError("sizes goes with kind: random only; samples of data have sizes of their own")
        named = [axis for size in self.sizes or () for axis in size.axes]
        if twice := next((axis for axis in named if named.count(axis) > 1), None):
            raise ValueError(f"sizes gives {twice} twice")
        if self.think_time_ms is not None and not self.conversing:
            raise ValueError("think_time_ms is of conversations; give turns as well")
        return self


class BatchingSpec(Spec):
    """Dynamic batching in the server."""

    max_batch_size: Annotated[int, Field(ge=1, le=4096)] = 8
    """The most samples in one batch."""
    max_delay_ms: Annotated[float, Field(ge=0, le=10_000)] = 1.0
    """How long the first request of a batch waits for others."""
    preferred_batch_sizes: tuple[Count, ...] = Field(default=(), strict=False, max_length=16)
    """Batches of these sizes leave at once; without, a batch leaves when it is full or its time is up."""


#: Of most backends; see ``Backend.ready_timeout_s``.
READY_TIMEOUT_S = 120.0


class ServeSpec(Spec):
    """The system under test and its settings."""

    backend: Slug = "onnxruntime"
    """The serving system; ``inferbench backends`` lists them."""
    framework: Annotated[str, Field(max_length=MAX_LENGTH), AfterValidator(readable)] | None = None
    """The runtime's version, of those that have a manifest: ``onnxruntime@~1.27``. It runs in this environment, or in
    one of pinned hashes that is made on first use. Null: the version that is installed here. ``onnxruntime`` only."""
    launcher: Literal["process", "container"] = "process"
    """How the server is started."""
    image: Annotated[str, Field(pattern=IMAGE_PATTERN, max_length=300)] | None = None
    """The container's image; the backend's own unless one is named. With ``launcher: container`` only."""
    device: DeviceSpec = CPU
    """``cpu``, ``gpu`` (any), or ``gpu:<type>``."""
    devices: Annotated[int, Field(ge=1, le=8)] = 1
    """Devices that the job holds at once: on each stands a replica of the server, with all of these settings, behind a
    balancer that the load goes to. CPUs and our own servers only. `inferbench run` leases none: it divides the
    machine's cores."""
    spread: Spread = "one_host"
    """Of several devices: all of one host, or each of another one (``own_hosts``): balancer and load are then on the
    first one's, and the network to the others is measured before and after the load."""
    balancer: BalancerSpec | None = None
    """Before several replicas (``devices``), in a sweep before those alone; nginx by ``least_conn`` unless given."""
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    """Intra-op threads of each instance. On shared cores more can be many times slower."""
    instances: Annotated[int, Field(ge=1, le=256)] = 1
    """Copies of the model that answer at the same time."""
    batching: BatchingSpec | None = None
    """Dynamic batching in the server; null or absent: none."""
    slots: Annotated[int, Field(ge=1, le=256)] | None = None
    """Of a server of language models: requests that it answers at the same time; its own number unless given."""
    context_tokens: Annotated[int, Field(ge=16, le=1_048_576)] | None = None
    """Of a server of language models: the most tokens of a request, prompt and answer together."""
    prefix_cache: bool | None = None
    """Of a server of language models: whether what a prompt begins with is kept for others; it is unless ``false``."""
    dummy_weights: bool = False
    """Of ``vllm``: random weights in place of the model's own, which are not read (``--load-format dummy``). What it
    says means nothing; every result says so, its model's name too."""
    ready_timeout_s: Seconds | None = None
    """How long the server may take until its model answers; 120 unless given, 600 with ``vllm``."""

    @property
    def apart(self) -> bool:
        """Whether replicas stand on hosts of their own."""
        return self.devices > 1 and self.spread == "own_hosts"

    @field_validator("device")
    @classmethod
    def _no_single_cpu(cls, value: DeviceSpec) -> DeviceSpec:
        if value.kind == "cpu" and value.detail:
            raise ValueError(f"must be {DeviceSpec.FORM}; got {str(value)!r}")
        return value


ClientName = Literal["fast", "reference", "tritonclient"]
CLIENT_NAMES: tuple[ClientName, ...] = get_args(ClientName)
#: A way of the inputs to the server, past the network.
SHARED_MEMORY: Literal["shared_memory"] = "shared_memory"


#: Of ``load.from``, which has no line of its own in the class below.
FROM = (
    "Where it comes from: ``server_host``, a process beside the server; ``other_host``, a device of another host, which"
    " the job holds beside its own (our own servers and Triton, over http and grpc); the name of a host or a cluster,"
    " as workers registered it (``inferbench nodes``): a device of that one. The network between them is measured"
    " before and after. Nobody waits for the server's host to be quiet; what disturbs it is told."
)


class LoadSpec(Spec):
    """The traffic. Latency counts from the intended send time, so a late sender can't hide queueing."""

    scenario: Annotated[str, Field(max_length=200)] | None = None
    """A load by its manifest, in place of ``arrivals`` and what else says how much is asked: ``poisson-50@^1``."""
    arrivals: ArrivalsSpec
    """When each request is meant to leave; ``inferbench arrivals`` lists the kinds."""
    engine: Literal["inferbench", "mlperf_loadgen"] = "inferbench"
    """Who decides when requests leave: our sender, or MLPerf LoadGen (single_stream, multi_stream, server, offline).
    The samples of ``evaluate`` LoadGen asks in its accuracy mode."""
    # Python has the word for itself, and an alias would stand in what is dumped, swept and hashed.
    __annotations__["from"] = Literal["server_host", "other_host"] | Slug
    vars()["from"] = Field("server_host", description=FROM)
    client_hosts: Annotated[int, Field(ge=1, le=MOST_CLIENT_HOSTS)] = 1
    """From how many other hosts at once: 2 to 8 share the load. Each sends an equal part of one schedule (of 3 hosts
    every third request), from one instant on; what all recorded is judged as one load. With ``from: other_host`` or the
    name of a cluster; the job then holds a device of each."""
    duration_s: Seconds = 10.0
    """Length of the measurement, without the warm-up."""
    warmup_s: Annotated[float, Field(ge=0, le=3600)] = 2.0
    """Load before the measurement, of the same kind; reported apart."""
    wait_for_quiet_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """The load waits at most so long for a machine on which others leave server and sender their cores, then begins and
    says so; 0 looks once. Where other hosts send, each of these is waited for, and no other. No part of a digest."""
    max_requests: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    """The measurement ends after so many requests, if that comes before ``duration_s``."""
    batch_size: Annotated[int, Field(ge=1, le=4096)] = 1
    """Samples in one request."""
    protocol: Literal["http", "grpc", "openai"] = "http"
    """What the load speaks to the server; ``openai``: OpenAI's API of language models over HTTP, answers as streams."""
    transport: Literal["network", "shared_memory"] = "network"
    """How the inputs come to the server: ``network``, in each request; ``shared_memory``: they are written once into
    memory that the server maps (KServe's system shared memory), and requests say where theirs lie. Answers come over
    the network either way."""
    endpoint: Literal["chat", "completions"] | None = None
    """Of ``openai``: which endpoint is asked; ``chat`` unless given."""
    client: ClientName = "fast"
    """``fast``: the lean client; ``reference``: the protocol's usual library, slower, to check the first against;
    ``tritonclient``: NVIDIA's library for KServe v2, with what it costs its users."""
    timeout_ms: Annotated[float, Field(gt=0, le=600_000)] = 10_000.0
    """A request without an answer after this counts as an error; with ``offline`` arrivals only at their end."""
    shards: Annotated[int, Field(ge=1, le=64)] | Literal["auto"] = "auto"
    """Processes that send; ``auto`` chooses by the rate and the cores."""
    connections: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """The most connections of all shards together; chosen by the load unless given. Over HTTP each carries one request
    at a time: in an open loop requests wait for so many as for so many users, and that counts in their times."""
    max_error_ratio: Annotated[float, Field(ge=0, le=1)] = 0.5
    """The load ends early once a larger share of its requests has failed, of all hosts' together where several send."""
    expect: Literal["overload"] | None = None
    """``overload``: more than the server can answer is meant. Latencies then stand though they depend on how long the
    load lasts, and the report says so; without, they are withheld where the backlog grows or nothing is steady."""
    network: Annotated[str, Field(pattern=NETWORK_PATTERN, max_length=200)] = "lan"
    """The network between client and server: a row of ``configs/networks.yaml``, or
    ``custom:latency_ms=20,jitter_ms=2,up_mbit_s=16,down_mbit_s=24,loss_ratio=0.01`` (all of them optional)."""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 1
    """Of the arrivals, and of the choice, order and noise of the samples."""
    realtime: bool = False
    """Send with real-time priority (needs the permission): less lateness on a busy machine."""
    allow_unsafe_load: bool = False
    """Go on where the load asks for more than the sender is known to manage; the certificate still judges the run."""

    @property
    def away(self) -> bool:
        """Whether it comes from another host than the server's."""
        return bool(getattr(self, "from") != "server_host")

    @property
    def named_host(self) -> str:
        """The host or cluster that it has to come from; "" where any other one will do."""
        name: str = getattr(self, "from")
        return "" if name in ("server_host", "other_host") else name

    @property
    def samples_per_request(self) -> int:
        """Samples in one request: ``batch_size``, unless the arrivals have a number of their own."""
        return self.arrivals.samples_per_request(self.batch_size)


@cache
def one_at_a_time() -> LoadSpec:
    """How a job without a load asks: one user over HTTP, who sends one sample and waits; nothing is timed by it."""
    alone = {"kind": "closed_loop", "concurrency": 1}
    return LoadSpec.model_validate(
        {"arrivals": alone, "duration_s": 60.0, "warmup_s": 0.0, "wait_for_quiet_s": 0.0}
    )


class NightlySpec(Spec):
    """What follows a night of this submission; no part of what is measured."""

    bisect: bool = False
    """A night that confirms a regression between two commits starts the search for the one that made it, at the lowest
    priority; without, it gives the command."""


class JobSpec(JobBase):
    """One concrete point: what a submission says once its sweep is taken away."""

    devices_field: ClassVar[str] = "serve.devices"
    elsewhere_field: ClassVar[str] = "load.from"
    member_fields: ClassVar[tuple[str, ...]] = ("evaluate.part",)
    newer: ClassVar[dict[str, Any]] = NEWER | {f"requests.{name}": None for name in PROMPT_FIELDS}

    kind: Literal["serving"] = DEFAULT_KIND
    """What is measured, and by which stages: ``serving``, or what an installed package brings."""
    model: ModelSpec
    """The model under test."""
    stack: Annotated[str, Field(max_length=200)] | None = None
    """What serves, by its manifest: format, precision, backend and settings at once: ``onnxruntime@^1``."""
    requests: RequestsSpec = RequestsSpec()
    """What the requests carry."""
    processors: ProcessorsSpec | None = None
    """From raw data to tensors and back, on the client or in the server; without, requests carry tensors."""
    convert: ConvertSpec = ConvertSpec()
    """The format and precision to serve."""
    serve: ServeSpec = ServeSpec()
    """The system under test."""
    load: LoadSpec | None = None
    """The traffic. Null with ``evaluate`` or ``trace`` only: their requests are sent one at a time, and there are no
    latencies."""
    evaluate: EvaluateSpec | None = None
    """Whether the answers are right: each sample of a data set once, in the load's scenario; null: nobody looks."""
    trace: TraceSpec | None = None
    """Where the time of a request goes, down to the layers; on servers of its own. Null: nobody looks."""
    share: ShareSpec | None = None
    """Other models on the same device; each is measured alone and beside the others."""
    systems: SystemsSpec | None = None
    """What a registered device must have to run it, in place of ``serve.device``; null: that says it."""
    system: SystemSpec | None = None
    """What was chosen by ``systems``; filled in on reading, or given: then there has to be such a device."""
    slo: SloSpec | None = None
    """The objective that a configuration has to meet; without, results are shown and not judged."""
    nightly: NightlySpec | None = None
    """What follows its nights; other runs leave it alone."""

    @model_validator(mode="before")
    @classmethod
    def _on_its_system(cls, data: Any) -> Any:
        """The device of a job whose system was chosen is that of the system, which a sweep may have put in."""
        if isinstance(data, dict) and isinstance(system := data.get("system"), dict):
            serve = data.get("serve") or {}
            if isinstance(serve, dict) and "device" in system:
                return {**data, "serve": {**serve, "device": system["device"]}}
        return data

    @property
    def traffic(self) -> LoadSpec:
        """How requests are sent: as the load says; one at a time where there is none."""
        return one_at_a_time() if self.load is None else self.load

    @property
    def named_runtime(self) -> str | None:
        """The runtime with its version, where the submission names one."""
        return self.serve.framework

    @property
    def streamed(self) -> bool:
        """Whether answers are streams of tokens."""
        return self.traffic.protocol == "openai"

    def needed_device(self) -> DeviceSpec:
        """The device that the server runs on."""
        return self.serve.device

    def needed_devices(self) -> int:
        """One for each replica of the server, of those on its own host."""
        return 1 if self.serve.apart else self.serve.devices

    def needed_ability(self) -> str:
        """A balancer, before several replicas."""
        return balancing(self.traffic.protocol) if self.serve.devices > 1 else ""

    def stages_elsewhere(self) -> tuple[str, ...]:
        """The load, where it comes from another host, and what sends beside it; the replicas of other hosts."""
        return (*self._far_replicas, *((*self._standbys, "load") if self.traffic.away else ()))

    def hosts_elsewhere(self) -> dict[str, int]:
        """The leading client host is the first; each replica has one."""
        if self.serve.apart:
            return {name: number for number, name in enumerate(self._far_replicas, 1)}
        if not self.traffic.away or not self.further_hosts:
            return {}
        return {"load": 1, **{name: number for number, name in enumerate(self._standbys, 2)}}

    def elsewhere_by(self) -> str:
        """Where its replicas are, else where its load comes from."""
        return "serve.spread" if self.serve.apart else self.elsewhere_field

    def chosen_elsewhere(self) -> bool:
        """All of its replicas stand on those that it names."""
        return self.serve.apart

    @property
    def _far_replicas(self) -> tuple[str, ...]:
        return tuple(numbered("replica", number) for number in range(1, 1 + self.far_replicas))

    @property
    def far_replicas(self) -> int:
        """How many replicas stand on other hosts than the first one's."""
        return self.serve.devices - 1 if self.serve.apart else 0

    @property
    def spread_replicas(self) -> int | None:
        """The same; None where all are on one host."""
        return self.far_replicas or None

    @property
    def _standbys(self) -> tuple[str, ...]:
        return tuple(numbered("standby", number) for number in range(1, self.further_hosts + 1))

    @property
    def shared_load(self) -> int | None:
        """How many hosts share the load; None where one sends all of it."""
        return self.traffic.client_hosts if self.traffic.client_hosts > 1 else None

    @property
    def further_hosts(self) -> int:
        """How many hosts share the load with the first one."""
        return self.traffic.client_hosts - 1

    def named_elsewhere(self) -> str:
        """As the load says."""
        return self.traffic.named_host

    def only_on(self) -> tuple[str, ...]:
        """Those that were chosen, else those that the submission names."""
        return self.on_devices if self.system is None else self.system.ids

    def named_files(self) -> Iterator[NamedFile]:
        """The model's and the requests', and the trace that is replayed, which counts with its content."""
        if self.model.kind == "file":
            yield NamedFile("model.path", self.model.path, may_be_folder=True)
            if self.model.module is not None:
                yield NamedFile("model.module", self.model.module)
        if self.requests.path is not None:
            whole = self.requests.kind in PROMPTED
            yield NamedFile("requests.path", self.requests.path, may_be_folder=not whole, counts=whole)
        if self.evaluate is not None and self.evaluate.path is not None:
            yield NamedFile("evaluate.path", self.evaluate.path, may_be_folder=True)
        if self.evaluate is not None and self.evaluate.spans is not None and self.evaluate.spans.tokenizer:
            yield NamedFile("evaluate.spans.tokenizer", self.evaluate.spans.tokenizer)
        for part in ("before", "after"):
            for at, step in enumerate(getattr(self.processors, part, ())):
                if isinstance(path := step.settings.get("path"), str):
                    yield NamedFile(f"processors.{part}.{at}.settings.path", path)
        if isinstance(trace := getattr(self.traffic.arrivals, "path", None), str):
            yield NamedFile("load.arrivals.path", trace, counts=True)

    @classmethod
    def at_point(cls, data: dict[str, Any], swept: Collection[str]) -> dict[str, Any]:
        """Where ``serve.devices`` is swept, its point of one device has no balancer, and no other host, whatever the
        others have.
        """
        serve = data.get("serve")
        if cls.devices_field not in swept or not isinstance(serve, dict) or serve.get("devices") != 1:
            return data
        of_several = ("balancer", "spread")
        return {**data, "serve": {name: value for name, value in serve.items() if name not in of_several}}

    @classmethod
    def members(cls, data: dict[str, Any]) -> list[dict[str, Any]]:
        """The members of its share, each alone and beside the others; the parts of its evaluation."""
        return [part for member in members(data) for part in in_parts(member)]


class Submission(SubmissionBase, JobSpec):
    """A user's YAML, validated. Jobs come from ``sweep.expand``, which validates each of them again."""

    job = JobSpec

    kind: Literal["serving"] = DEFAULT_KIND
    """What is measured, and by which stages: ``serving``, or what an installed package brings."""


def loaded_only(job: JobSpec, what: str) -> LoadSpec:
    """The load of a job; InputError, which says that ``what`` needs one, of a job that only evaluates or traces."""
    if job.load is None:
        raise InputError(f"{what} needs a load, and {job.name} has none; add one", field="load")
    return job.load


def serving_only(submission: SubmissionBase, what: str) -> Submission:
    """A submission of this kind; InputError, which says that ``what`` needs one, for any other."""
    if not isinstance(submission, Submission):
        raise InputError(
            f"{what} needs a submission of kind {DEFAULT_KIND}; {submission.name} is of kind {submission.kind}"
        )
    return submission
