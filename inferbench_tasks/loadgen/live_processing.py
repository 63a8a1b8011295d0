"""A client that does its user's work too: pre- and post-processing of every request while the load runs.

Otherwise requests are bytes before the load begins, which is right where the server is what matters. Here
the latency is what a user sees: from the intended moment over ``before``, the encoding, the wire and back, the
decoding and ``after``. It all happens on the sender's loop, as in a client with one thread: a load that asks
for more than one core can process shows it as lateness, and the certificate judges it.
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
from inferbench_tasks.processors.pipeline import Pipeline
from inferbench_tasks.requests.ragged import unpacked

#: The client itself could not process a request.
FAILED = "client_processing"


def live(plan: LoadPlan, factory: ClientFactory) -> ClientFactory:
    """The same client, with the plan's processing around it."""

    def make(
        settings: ClientSettings, loop: asyncio.AbstractEventLoop, sink: Sink, check: AnswerCheck
    ) -> Client:
        return LiveClient(plan, factory, settings, loop, sink, check)

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
        self._inner = factory(settings, loop, _Ends(sink, judge), judge)

    async def open(self, connections: int) -> None:
        await self._inner.open(connections)

    def send(self, call: Call) -> bool:
        if call.client_spans[0] < 0:
            began_ns = time.monotonic_ns()
            try:
                wire = self._encode(self._prepare(call.payload))
            except InferBenchError as error:
                self._sink.explain(FAILED, str(error))
                self._loop.call_soon(self._sink.finish, call, FAILED, time.monotonic_ns())
                return True
            call.payload = Payload(wire, call.payload.sample_index, call.payload.batch_size)
            call.client_spans = (time.monotonic_ns() - began_ns, -1)
        return self._inner.send(call)

    def want(self, waiting: int) -> None:
        self._inner.want(waiting)

    def abandon(self, call: Call) -> None:
        self._inner.abandon(call)

    async def close(self) -> None:
        await self._inner.close()

    def _prepare(self, payload: Payload) -> Outputs:
        start, size = payload.sample_index, payload.batch_size
        rows = np.arange(start, start + size) % self._samples
        if self._raw is not None:
            return self._pipeline.before(self._raw[rows])[0]
        return {name: array[rows] if self._batched else array[start] for name, array in self._inputs.items()}


class _Judge(AnswerCheck):
    """Every answer is decoded, checked and processed; ``spent_ns``: on the last one."""

    def __init__(self, decode: Any, check: AnswerCheck, pipeline: Pipeline) -> None:
        super().__init__(decode)
        self._of_user = check
        self._pipeline = pipeline
        self.spent_ns = 0

    def known(self, batch_size: int, length: int) -> bool:
        """Every answer is looked at."""
        return False

    def problem(self, batch_size: int, length: int, answer: bytes | Outputs) -> str | None:
        began_ns = time.monotonic_ns()
        try:
            outputs = self.outputs(answer)
            self._of_user.check(outputs, batch_size)
            self._pipeline.after(outputs)
        except (BadAnswer, InferBenchError) as error:
            return str(error)
        finally:
            self.spent_ns = time.monotonic_ns() - began_ns
        return None


class _Ends(ForwardingSink):
    """A request ends when its answer was processed. Clients judge an answer right before they end its call."""

    def __init__(self, sink: Sink, judge: _Judge) -> None:
        super().__init__(sink)
        self._judge = judge

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        if status == OK:
            call.client_spans = (call.client_spans[0], self._judge.spent_ns)
            done_ns = time.monotonic_ns()
        super().finish(call, status, done_ns)


def _raw(processing: ClientProcessing) -> Any:
    """The raw samples, None where requests begin as tensors."""
    if processing.raw_path is None:
        return None
    with np.load(processing.raw_path, allow_pickle=False) as archive:
        (raw,) = unpacked(archive).values()
    return raw
