"""What is to be sent, in full, before anything is sent: the senders' orders, as files in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from inferbench_tasks.clients.openai_form import StreamTarget
from inferbench_tasks.contracts.handles import Endpoint, ProcessorStep
from inferbench_tasks.loadgen.shared_inputs import SharedInputs


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class Segment(_Data):
    """A stretch of the load; times in ns after the load's start.

    "open" sends at the times of ``offsets_path`` (``.npy`` of int64, ns after the load's start, all
    shards' together); "closed" keeps ``concurrency`` users busy, all shards' together, from start to end.
    The next segment starts at its time whether the answers of this one have come or not.
    ``max_requests`` ends a closed segment's sending early, whichever shard sends them; those before ``quota_from_ns``
    don't count.
    """

    kind: Literal["open", "closed"]
    start_ns: int
    end_ns: int
    offsets_path: str | None = None
    concurrency: int = 0
    think_time_ns: int = 0
    max_requests: int | None = None
    quota_from_ns: int = 0
    first_request_id: int = 0
    #: False: all requests are there from the start and wait for their turn; none is dropped.
    paced: bool = True


class OutputShape(_Data):
    """The shape of an output, as ``clients.answers.ExpectedOutput`` has it."""

    shape: tuple[int, ...] | None = None
    batched: bool = True


class BatchShare(_Data):
    """Requests of one size in a mix: ``weight`` of all weights have ``batch_size`` samples."""

    batch_size: int = Field(ge=1)
    weight: float = Field(gt=0, default=1.0)


class MlperfSettings(_Data):
    """The load as MLPerf LoadGen has to make it; its parts that don't belong to a scenario are not looked at.

    ``rate_rps`` and ``target_latency_ms`` (which 99% of the queries must keep): of "server".
    ``requests``: of "offline". ``max_queries``: of the others; None for no limit. ``accuracy``: its accuracy mode, in
    which ``requests`` are the samples of its data set, whatever the scenario; see ``mlperf_accuracy``.
    """

    scenario: Literal["single_stream", "multi_stream", "server", "offline"]
    rate_rps: float = 1.0
    target_latency_ms: float = Field(default=1000.0, gt=0)
    requests: int = 1
    max_queries: int | None = None
    accuracy: bool = False


class ClientProcessing(_Data):
    """``before`` and ``after``: processors and their settings, see ``processors.pipeline``.

    ``raw_path``: raw samples (``requests.ragged``) for ``before``; without it requests begin as tensors, and
    what is timed is how they are written.
    """

    before: tuple[ProcessorStep, ...] = ()
    after: tuple[ProcessorStep, ...] = ()
    raw_path: str | None = None


class LoadPlan(_Data):
    """One load. ``folder`` holds the records and the logs of its shards.

    ``inputs_path``: ``.npz``, one array per input, first axis = samples. ``measure_start_ns`` and
    ``measure_end_ns`` (after the load's start) bound the measured window as planned.
    """

    folder: str
    endpoint: Endpoint
    client: str = "fast"
    inputs_path: str
    batches: tuple[BatchShare, ...] = (BatchShare(batch_size=1),)
    #: Whether arrays have a batch axis in front; False sends a sample as it is.
    batched: bool = True
    binary: bool = True
    expected: dict[str, OutputShape] = {}
    segments: tuple[Segment, ...]
    measure_start_ns: int
    measure_end_ns: int
    timeout_ns: int
    shards: int = 1
    #: Of a load that several hosts share: which of them are this host's, by turns (``own``); None: all.
    first_shard: int = 0
    own_shards: int | None = None
    #: Of all shards together.
    connections: int
    initial_connections: int
    #: Whether the user asked for so many, each with one request at a time, and requests come by a schedule: what they
    #: wait for one is a queue of the load.
    connections_asked: bool = False
    max_error_ratio: float = 1.0
    #: The load ends early when more requests than this are in flight or waiting.
    max_backlog: int | None = None
    #: Of all shards together; None: as many as the client has room for.
    max_in_flight: int | None = None
    server_spans: bool = False
    #: What the client does to every request while the load runs; None: requests are bytes before it begins.
    processing: ClientProcessing | None = None
    realtime: bool = False
    seed: int = 1
    #: Why this load is not expected to be steady; None if it is.
    unsteady: str | None = None
    #: Whether more is asked of the server than it can answer, on purpose.
    expect_overload: bool = False
    #: MLPerf LoadGen makes the measured part, instead of its segment.
    mlperf: MlperfSettings | None = None
    #: Requests carry a ``traceparent`` made of this and their sample, as a header or as metadata; None: none does.
    trace_seed: str | None = None
    #: With it, one request in so many carries one, made of the seed and its own number; None: all do.
    trace_one_in: int | None = None
    #: Whether every answer is decoded and kept with its request, which costs the sender time.
    keep_answers: bool = False
    #: How streams of tokens are asked for; None for answers that come whole.
    stream: StreamTarget | None = None
    #: What is asked of the time to the first token, if anything is: stamps are judged by it.
    ttft_ms: float | None = None
    #: Of conversations: turn number k (from 0) of session s is the request ``s + k * turn_step``, where s is the number
    #: of its first turn; a multiple of ``shards``. 0: requests are by themselves.
    turn_step: int = 0
    #: The most tokens of a prompt that this load itself may have brought into a cache, where a salt keeps out what
    #: others brought; None where nobody can tell.
    cacheable_tokens: int | None = None
    #: The file by whose tokenizer (``formats.token_counter``) the server's counts are judged after the load, and
    #: answers counted where it tells none; None where there is none.
    vocabulary: str | None = None
    #: Whether requests leave in the order of the inputs, the first of the measured part with the first of them.
    in_order: bool = False
    #: Where the inputs lie in shared memory, of which requests only say the place; None: requests carry them.
    shared: SharedInputs | None = None

    def spool_path(self, shard: int) -> Path:
        """The file into which a shard writes its records."""
        return Path(self.folder) / f"shard-{shard}.spool"

    def streams_path(self, shard: int) -> Path:
        """The file into which a shard writes streams as they come."""
        return Path(self.folder) / f"shard-{shard}.streams"

    def answers_path(self, shard: int) -> Path:
        """The file into which a shard that keeps answers writes them at its end."""
        return Path(self.folder) / f"shard-{shard}.answers.npz"

    def processed_path(self, shard: int) -> Path:
        """The file into which a shard writes at its end when it processed traced requests, and their answers."""
        return Path(self.folder) / f"shard-{shard}.processed.npz"

    @property
    def groups_path(self) -> Path:
        """Where the samples of each request are written down that LoadGen's accuracy mode makes of several: a row of
        sample numbers for each.
        """
        return Path(self.folder) / "groups.npy"

    def log_path(self, shard: int) -> Path:
        """Where a shard's own words go."""
        return Path(self.folder) / f"shard-{shard}.log"

    @property
    def own(self) -> range:
        """The shards that send from this host: of 3 hosts every third one, so that what does not divide (users,
        connections) is dealt to all of them.
        """
        return range(self.first_shard, self.shards, self.shards // self.senders)

    @property
    def senders(self) -> int:
        """How many they are."""
        return self.shards if self.own_shards is None else self.own_shards

    @property
    def spans(self) -> bool:
        """Whether the records carry the times of stages."""
        return self.server_spans or self.processing is not None

    @property
    def path(self) -> Path:
        """Where the plan itself lies."""
        return Path(self.folder) / "plan.json"

    @property
    def asked_connections(self) -> tuple[int, ...] | None:
        """Of each shard, where the user asked for a number."""
        if not self.connections_asked:
            return None
        return tuple(max(1, self.share(self.connections, shard)) for shard in range(self.shards))

    def share(self, total: int, shard: int) -> int:
        """A shard's part of a number that belongs to all shards together."""
        return total // self.shards + (shard < total % self.shards)
