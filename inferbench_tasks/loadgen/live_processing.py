"""A client that does its user's work too: pre- and post-processing of every request while the load runs.

Otherwise requests are bytes before the load begins, which is right where the server is what matters. Here
the latency is what a user sees: from the intended moment over ``before``, the encoding, the wire and back, the
decoding and ``after``. It all happens on the sender's loop, as in a client with one thread: a load that asks
for more than one core can process shows it as lateness, and the certificate judges it. Of requests that are traced the
moments are kept, too (``processed_times``).
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np

from inferbench_tasks.clients.answers import AnswerCheck, BadAnswer, Outputs
from inferbench_tasks.clients.base import OK, Call, Client, ClientFactory, ClientSettings, Payload, Sink
from inferbench_tasks.clients.forwarding import ForwardingSink
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.loadgen.payloads import protocol_codec, read_inputs
from inferbench_tasks.loadgen.plan import ClientProcessing, LoadPlan
from inferbench_tasks.loadgen.processed_times import Processed, ProcessedTimes, Worked
from inferbench_tasks.processors.pipeline import Pipeline
from inferbench_tasks.protocols.traceparent import with_headers
from inferbench_tasks.requests.ragged import unpacked

#: The client itself could not process a request.
FAILED = "client_processing"


def times_of(plan: LoadPlan) -> ProcessedTimes | None:
    """Where a sender keeps when it processed traced requests; None of a load without any."""
    if plan.processing is None or plan.trace_seed is None:
        return None
    return ProcessedTimes(
        *([step.kind for step in part] for part in (plan.processing.before, plan.processing.after))
    )


def live(plan: LoadPlan, factory: ClientFactory, times: ProcessedTimes | None = None) -> ClientFactory:
    """The same client, with the plan's processing around it; ``times`` gets when it processed traced requests."""

    def make(
        settings: ClientSettings, loop: asyncio.AbstractEventLoop, sink: Sink, check: AnswerCheck
    ) -> Client:
        return LiveClient(plan, factory, settings, loop, sink, check, times)

    return make


class LiveClient(Client):
    """Prepares a call the first time that it is handed over; the inner client sends what comes out."""

    def __init__(
        self,
        plan: LoadPlan,
        factory: ClientFactory,
        settings: ClientSettings,
        loop: asyncio.AbstractEventLoop,
        sink: Sink,
        check: AnswerCheck,
        times: ProcessedTimes | None = None,
    ) -> None:
        super().__init__(settings, loop, sink, check)
        assert plan.processing is not None
        self._inputs = read_inputs(plan.inputs_path)
        self._samples = len(next(iter(self._inputs.values())))
        self._raw = _raw(plan.processing)
        self._batched = plan.batched
        self._encode, decode = protocol_codec(plan)
        steps = plan.processing
        self._pipeline = Pipeline(steps.before, steps.after, tuple(self._inputs))
        judge = _Judge(decode, check, self._pipeline)
        self._ends = _Ends(sink, judge, times)
        self._over_http = plan.endpoint.protocol == "http"
        self._inner = factory(settings, loop, self._ends, judge)

    async def open(self, connections: int) -> None:
        await self._inner.open(connections)

    def send(self, call: Call) -> bool:
        if call.client_spans[0] < 0:
            began_ns = time.monotonic_ns()
            payload = call.payload
            try:
                arrays, worked_ns = self._prepare(payload)
                wire = self._encode(arrays)
            except InferBenchError as error:
                self._sink.explain(FAILED, str(error))
                self._loop.call_soon(self._sink.finish, call, FAILED, time.monotonic_ns())
                return True
            if payload.metadata and self._over_http:
                wire = with_headers(wire, payload.metadata)
            call.payload = Payload(wire, payload.sample_index, payload.batch_size, payload.metadata)
            ended_ns = time.monotonic_ns()
            call.client_spans = (ended_ns - began_ns, -1)
            self._ends.began(call, Worked(began_ns, ended_ns, worked_ns))
        return self._inner.send(call)

    def want(self, waiting: int) -> None:
        self._inner.want(waiting)

    def abandon(self, call: Call) -> None:
        self._ends.forget(call)
        self._inner.abandon(call)

    async def close(self) -> None:
        await self._inner.close()

    def _prepare(self, payload: Payload) -> tuple[Outputs, dict[str, int]]:
        """What the request carries, and how long each processor took for it, ns."""
        start, size = payload.sample_index, payload.batch_size
        rows = np.arange(start, start + size) % self._samples
        if self._raw is not None:
            return self._pipeline.before(self._raw[rows])
        arrays = {
            name: array[rows] if self._batched else array[start] for name, array in self._inputs.items()
        }
        return arrays, {}


class _Judge(AnswerCheck):
    """Every answer is decoded, checked and processed; ``worked``: on the last one."""

    def __init__(self, decode: Any, check: AnswerCheck, pipeline: Pipeline) -> None:
        super().__init__(decode)
        self._of_user = check
        self._pipeline = pipeline
        self.worked = Worked(0, 0, {})

    def known(self, batch_size: int, length: int) -> bool:
        """Every answer is looked at."""
        return False

    def problem(self, batch_size: int, length: int, answer: bytes | Outputs) -> str | None:
        began_ns = time.monotonic_ns()
        worked_ns: dict[str, int] = {}
        try:
            outputs = self.outputs(answer)
            self._of_user.check(outputs, batch_size)
            _, worked_ns = self._pipeline.after(outputs)
        except (BadAnswer, InferBenchError) as error:
            return str(error)
        finally:
            self.worked = Worked(began_ns, time.monotonic_ns(), worked_ns)
        return None


class _Ends(ForwardingSink):
    """A request ends when its answer was processed. Clients judge an answer right before they end its call."""

    def __init__(self, sink: Sink, judge: _Judge, times: ProcessedTimes | None) -> None:
        super().__init__(sink)
        self._judge = judge
        self._times = times
        self._begun: dict[int, Worked] = {}

    def began(self, call: Call, before: Worked) -> None:
        """Keep what was done before a request left, if it is traced, until its answer was processed."""
        if self._times is not None and call.payload.metadata:
            self._begun[call.request_id] = before

    def forget(self, call: Call) -> None:
        """Nobody waits for its answer any more."""
        self._begun.pop(call.request_id, None)

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        before = self._begun.pop(call.request_id, None)
        if status == OK:
            worked = self._judge.worked
            call.client_spans = (call.client_spans[0], worked.ended_ns - worked.started_ns)
            if self._times is not None and before is not None:
                # Not later: whoever takes the time of its end behind the judge knows of no answer's own.
                self._times.add(call.request_id, Processed(before, worked, min(done_ns, worked.started_ns)))
            done_ns = time.monotonic_ns()
        super().finish(call, status, done_ns)


def _raw(processing: ClientProcessing) -> Any:
    """The raw samples, None where requests begin as tensors."""
    if processing.raw_path is None:
        return None
    with np.load(processing.raw_path, allow_pickle=False) as archive:
        (raw,) = unpacked(archive).values()
    return raw
