"""What PerfDB holds, field by field: results, runs, invocations.

A result is written once and never changed. Units are part of the names; None means "not measured",
never zero. Parts that other packages shape themselves (certificate, environment, resources, energy)
are open dicts; everything else is typed. Keys may be any text: the store makes them safe.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, computed_field, model_validator

from inferbench_tasks.contracts.drawn import apart
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb.values import Attachment

Extension = dict[str, Any]
VerdictAsText = Annotated[Verdict, PlainSerializer(str, return_type=str)]
RunStatus = Literal["running", "done", "failed", "cancelled"]
StageState = Literal["running", "done", "failed", "cancelled"]


def utc_now() -> datetime:
    """Now, in UTC, to the millisecond (the resolution of a stored date)."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


class Document(BaseModel):
    """Finite numbers only; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())


class OpenDocument(Document):
    """Like Document, and a part may add keys of its own."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False, protected_namespaces=())


class Judged(Document):
    """A document with a verdict, which is stored twice: its text as ``verdict``, its value as ``judgement``."""

    @model_validator(mode="before")
    @classmethod
    def _read_verdict(cls, values: Any) -> Any:
        if not isinstance(values, dict) or isinstance(values.get("verdict"), Verdict):
            return values
        others = {name: value for name, value in values.items() if name != "judgement"}
        return {**others, "verdict": Verdict.of(values)} if "verdict" in values else others


class SubmissionInfo(Document):
    """Whose submission it was. ``digest``: of what the job measures, see ``submission.digest``.

    ``user`` is who the submission says it is of; ``login`` who started it on a system with logins, None elsewhere and
    of a schedule.
    """

    name: str
    user: str = "anonymous"
    login: str | None = None
    digest: str | None = None


class ModelInfo(OpenDocument):
    """The model as it was served; ``flops`` and ``bytes`` per sample, as in ``handles.ModelArtifact``."""

    name: str
    version: int = 1
    digest: str | None = None
    framework: str | None = None
    precision: str | None = None
    task: str | None = None
    dataset: str | None = None
    parameters: int | None = None
    flops: int | None = None
    bytes: int | None = None
    #: Why FLOPs or bytes are not known.
    costs_reason: str | None = None
    #: How many samples each call takes, where that is fixed; what was done to a file so that it can be served.
    batch_size: int | None = None
    adapted: tuple[str, ...] = ()
    #: Accuracy of the source model on its held-out test set; why there is none, whatever the data.
    accuracy_ratio: float | None = None
    accuracy_reason: str | None = None


class BackendRecord(OpenDocument):
    """The serving system as it ran; ``settings`` are its own words. ``drawn``: what its start merely drew, ports and
    files of its run; of a result from before that was kept apart it is taken out of the settings (``contracts.drawn``).
    """

    kind: str
    version: str | None = None
    launcher: str | None = None
    label: str | None = None
    settings: Extension = {}
    drawn: Extension = {}

    @model_validator(mode="before")
    @classmethod
    def _drawn_apart(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "drawn" in values or not isinstance(values.get("settings"), dict):
            return values
        settings, drawn = apart(values["settings"])
        return {**values, "settings": settings, "drawn": drawn}


class DeviceInfo(OpenDocument):
    """What it ran on; ``kind`` is "cpu" or "gpu", ``name`` the product's.

    ``cores``: the CPU's logical cores that the job had (pinned to, at most its quota); None in older results.
    """

    kind: str
    name: str | None = None
    cores: float | None = None


class HostClock(Document):
    """How far a host's clock was ahead of PerfDB's, and at most how wrong that is; seconds."""

    ahead_s: float
    error_s: float


class LoadInfo(OpenDocument):
    """The traffic that was asked for: the submission's ``load``, as plain values.

    ``batch_size`` is the samples of one request, also where the arrivals decide them (``multi_stream``).
    ``transport`` is None in results of before there was another than the network.
    """

    arrivals: Extension = {}
    batch_size: int | None = None
    duration_s: float | None = None
    warmup_s: float | None = None
    protocol: str | None = None
    transport: str | None = None
    network: str | None = None
    seed: int | None = None


class LatencyStats(OpenDocument):
    """Percentiles are exact, and None where too few samples support them. ``ci95``: bounds by name."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    p999: float | None = None
    ci95: Any = None


class StagesMs(OpenDocument):
    """Where the time of a request went, ms per request (mean unless a dict says otherwise)."""

    preprocess: Any = None
    transmit: Any = None
    queue: Any = None
    inference: Any = None
    postprocess: Any = None


class Energy(OpenDocument):
    """``method`` tells how the energy was got ("rapl", "nvml", "tdp-estimate", ...)."""

    joule_per_request: float | None = None
    joule_per_sample: float | None = None
    method: str | None = None


class Summary(OpenDocument):
    """All figures of a run; each can be derived again from the raw samples and the monitors."""

    e2e_latency_ms: LatencyStats = LatencyStats()
    send_latency_ms: LatencyStats = LatencyStats()
    lateness_us: LatencyStats = LatencyStats()
    throughput_rps: float | None = None
    throughput_samples_per_s: float | None = None
    goodput_rps: float | None = None
    #: Kind of error -> number of requests.
    errors: dict[str, int] = {}
    stages_ms: StagesMs = StagesMs()
    cold_start_ms: Any = None
    resources: Extension = {}
    energy: Energy = Energy()
    #: Of 1,000 requests; ``_samples``: of 1,000 samples, None in results from before it was stored.
    co2_g_per_1k: float | None = None
    co2_g_per_1k_samples: float | None = None
    cost_usd_per_1k: float | None = None
    cost_usd_per_1k_samples: float | None = None
    #: Share of labelled samples whose answer, through the server, was right.
    accuracy_ratio: float | None = None


class Provenance(OpenDocument):
    """The versions of what made the result: code, packages, server."""

    git_sha: str | None = None
    versions: dict[str, str | None] = {}
    seeds: dict[str, int | None] = {}


class ResultBase(Judged):
    """The result of one attempt at one run, whatever its kind; unique by ``(run_id, attempt)``.

    A kind of submission has a subclass with what its jobs measure, and keeps its results in a collection of its own.
    """

    #: PerfDB's collection of these documents.
    collection: ClassVar[str]

    run_id: Annotated[str, Field(min_length=1, max_length=300)]
    attempt: Annotated[int, Field(ge=1)] = 1
    job_id: str
    invocation_id: str | None = None
    #: By PerfDB's clock, unless whoever made it named a time (``PerfDB.save_result``).
    created_at: datetime = Field(default_factory=utc_now)
    #: Of the host that stored it; None in older results, and where the time was named.
    clock: HostClock | None = None
    submission: SubmissionInfo
    verdict: VerdictAsText
    environment: Extension = {}
    provenance: Provenance = Provenance()
    #: The raw samples; filled in by the store.
    samples: Attachment | None = None
    #: What other parts add (a batch scenario's result, MLPerf's log summary, ...).
    extensions: Extension = {}

    @computed_field  # type: ignore[prop-decorator]  # mypy does not know pydantic's
    @property
    def judgement(self) -> dict[str, Any]:
        """The verdict's kind, and its reasons with check, figure, bound and stage."""
        return self.verdict.value()

    @property
    def valid(self) -> bool:
        """Whether the figures may be compared with others."""
        return self.verdict.valid


class ResultDocument(ResultBase):
    """The result of a serving job."""

    collection: ClassVar[str] = "results"

    model: ModelInfo
    format: str
    backend: BackendRecord
    device: DeviceInfo
    load: LoadInfo
    summary: Summary
    certificate: Extension = {}


class StageRecord(Document):
    """One execution of one stage; ``pid`` and ``host`` are those of the process that ran it.

    Start and end are by PerfDB's clock, ``duration_s`` by CLOCK_MONOTONIC. ``clock``: its host's as it started; None of
    stages from before it was kept, whose times are by their host's clock. ``settled``: its process was killed, and
    ``ended_at`` is when that was found; false of all stages from before it was kept.
    ``devices``: the ids of those that its job held then; empty where no scheduler leases any, and of stages before.
    """

    stage: str
    attempt: int = 1
    state: StageState
    started_at: datetime
    ended_at: datetime | None = None
    duration_s: float | None = None
    error: str | None = None
    output: Extension | None = None
    pid: int | None = None
    host: str | None = None
    clock: HostClock | None = None
    settled: bool = False
    devices: tuple[str, ...] = ()


class RunDocument(Judged):
    """The execution of a job, from its first stage on; ``stages`` in the order of their starts.

    ``status`` says how the execution went; ``verdict`` whether its figures count. A run that was
    killed outright stays "running" until someone ends it: ``updated_at`` tells how long ago it was alive.
    ``lease``: the nonce of that which its stages work under by now, or did last; stages of a former one don't end it.
    """

    run_id: str
    invocation_id: str
    job_id: str
    submission: SubmissionInfo
    job: Extension = {}
    status: RunStatus = "running"
    verdict: VerdictAsText | None = None
    started_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None
    stages: list[StageRecord] = []
    lease: str | None = Field(default=None, exclude=True)

    @computed_field  # type: ignore[prop-decorator]  # mypy does not know pydantic's
    @property
    def judgement(self) -> dict[str, Any] | None:
        """As a result's; None until it is known."""
        return self.verdict.value() if self.verdict else None

    @property
    def said(self) -> str:
        """Its verdict in words; its status while it has none."""
        return str(self.verdict) if self.verdict else self.status

    def stage(self, name: str) -> StageRecord | None:
        """The latest execution of that stage."""
        return next((record for record in reversed(self.stages) if record.stage == name), None)


class InvocationDocument(Document):
    """One execution of a submission: all its runs, and its report."""

    invocation_id: str
    submission: SubmissionInfo
    document: Extension = {}
    run_ids: list[str] = []
    status: RunStatus = "running"
    started_at: datetime
    ended_at: datetime | None = None
    attachments: list[Attachment] = []
