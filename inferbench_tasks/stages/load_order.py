"""What the senders of a load are told: from a job, its requests and its server to the load's plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from inferbench_tasks.backends.first_answer import Arrays, load_samples
from inferbench_tasks.contracts.handles import Endpoint, RequestSet
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.contracts.sending_hosts import MOST
from inferbench_tasks.contracts.stage_name import numbered
from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.plan import ClientProcessing, LoadPlan, OutputShape
from inferbench_tasks.loadgen.shared_inputs import SharedInputs, layout
from inferbench_tasks.requests.ragged import sample_shape
from inferbench_tasks.stages import generate, prompted, serve
from inferbench_tasks.stages.base import Context, StageInput
from inferbench_tasks.stages.senders.handles import Standby
from inferbench_tasks.stages.spread.balance import Output as Balanced
from inferbench_tasks.submission.files import changed_files, content_digests
from inferbench_tasks.submission.schema import SHARED_MEMORY

#: The raw records, in the run's folder.
SAMPLES_FILE = "samples.parquet"


class ToSend(StageInput):
    """Where to send what."""

    generate: generate.Output
    serve: serve.Output


class Input(ToSend):
    """The same, with who sends it too. ``devices``: those of this host that the job holds."""

    devices: tuple[HeldDevice, ...] = ()

    #: What stands before replicas on hosts of their own; ``serve`` is the first of them then.
    balance: Balanced | None = None
    #: What sends a part of the load from a further host each; none where one host sends all of it.
    standby: Standby | None = None
    standby_2: Standby | None = None
    standby_3: Standby | None = None
    standby_4: Standby | None = None
    standby_5: Standby | None = None
    standby_6: Standby | None = None
    standby_7: Standby | None = None

    @property
    def standing_by(self) -> tuple[Standby, ...]:
        """Those that are there, in their order."""
        names = (numbered("standby", number) for number in range(1, MOST))
        return tuple(one for name in names if (one := getattr(self, name)) is not None)


def plan_of(
    inp: Input, ctx: Context, folder: Path, endpoint: Endpoint, shards: int | None = None
) -> LoadPlan:
    """The senders' orders; InputError for what can't be done. ``shards``: so many, whatever the job says."""
    from inferbench_tasks.loadgen.prepare import prepare

    for finding in changed_files(inp.job, content_digests([inp.job], ctx.base_dir)):
        raise finding.as_error()
    spec = inp.job.traffic
    if shards is not None:
        spec = spec.model_copy(update={"shards": shards})
    if inp.job.streamed:
        vocabulary = inp.generate.requests.vocabulary_path
        return prompted.plan_of(inp.job, spec, endpoint, folder, ctx.base_dir, vocabulary)
    reference = load_samples(inp.generate.requests.answered_path)
    return prepare(
        spec,
        folder=folder,
        endpoint=endpoint,
        inputs_path=inp.generate.requests.sent_path,
        base_dir=ctx.base_dir,
        expected=expected_outputs(inp.generate, reference),
        target_latency_ms=inp.job.slo.bound("p99_ms") if inp.job.slo else None,
        server_spans=inp.serve.tells_spans,
        processing=client_processing(inp.generate.requests),
        shared=shared_layout(inp),
    )


def shared_layout(inp: Input, samples: Arrays | None = None) -> SharedInputs | None:
    """Where the inputs lie in the server's region of shared memory; None of a load over the network.

    ``samples``: what the requests send, where it was read already.
    """
    spec = inp.job.traffic
    if spec.transport != SHARED_MEMORY:
        return None
    if (key := inp.serve.shared_memory) is None:
        raise LoadError("The server was started without shared memory; serve it again")
    return layout(
        load_samples(inp.generate.requests.sent_path) if samples is None else samples,
        key,
        spec.samples_per_request,
        rows_of_one=inp.serve.endpoint.rows_of_one,
    )


def client_processing(requests: RequestSet) -> ClientProcessing | None:
    """What the client does to every request while the load runs; None if it does nothing."""
    processing = requests.processing
    if processing is None or processing.side != "client":
        return None
    return ClientProcessing(before=processing.before, after=processing.after, raw_path=processing.raw_path)


def expected_outputs(made: generate.Output, reference: Mapping[str, NDArray[Any]]) -> dict[str, OutputShape]:
    """An answer's shape per sample; -1 where texts of different lengths, each sent as long as it is, change it."""
    shapes: dict[str, tuple[int, ...]] = {name: sample_shape(a) for name, a in reference.items()}
    processing = made.requests.processing
    if processing is not None and processing.raw_path is not None:
        for spec in made.model.outputs:
            if len(spec.shape) == len(shapes.get(spec.name, ())):
                sizes = zip(shapes[spec.name], spec.shape, strict=True)
                shapes[spec.name] = tuple(-1 if declared < 0 else size for size, declared in sizes)
    return {name: OutputShape(shape=shape) for name, shape in shapes.items()}
