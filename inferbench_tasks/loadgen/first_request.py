"""One request by the same client that the load uses, before the load."""

from __future__ import annotations

import asyncio

from inferbench_tasks.backends.probes.base import Refused
from inferbench_tasks.clients.base import OK, Call, ClientSettings, Sink, client_factory
from inferbench_tasks.clients.openai_form import read_stream, without_key
from inferbench_tasks.clients.stream_file import KeptStreams
from inferbench_tasks.loadgen.payloads import answer_check, build_payloads
from inferbench_tasks.loadgen.plan import LoadPlan


class _One(Sink):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ended: asyncio.Future[str] = loop.create_future()
        self.words = ""

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        if not self.ended.done():
            self.ended.set_result(status)

    def ready(self) -> None:
        """No request waits for room here, so none is sent now."""

    def again(self, call: Call) -> None:
        self.finish(call, "refused", -1)

    def unreachable(self, reason: str) -> None:
        """No request waits for a connection here, so none is failed."""

    def explain(self, status: str, text: str) -> None:
        self.words = self.words or text


def _said(plan: LoadPlan, streams: KeptStreams) -> str:
    """The text that came; Refused where what came is no answer."""
    assert plan.stream is not None
    body = bytes(streams[0].body) if 0 in streams else b""
    stream = read_stream(body, with_answer=True)
    if stream.problem:
        raise Refused(without_key(": ".join(stream.problem), plan.stream.key()))
    return "".join(stream.answer or ())


def ask_once(plan: LoadPlan) -> str:
    """Send the plan's first request; Refused with the server's words, or OSError, if it has no good answer.

    What a stream of tokens said; "" for answers that are none.
    """

    async def ask() -> str:
        loop = asyncio.get_running_loop()
        sink = _One(loop)
        streams = KeptStreams()
        settings = ClientSettings(
            plan.endpoint,
            connections=1,
            timeout_ns=plan.timeout_ns,
            connect_timeout_s=min(5.0, plan.timeout_ns / 1e9),
            target=plan.stream,
            streams=streams,
        )
        factory = client_factory(plan.endpoint.protocol, plan.client)
        client = factory(settings, loop, sink, answer_check(plan))
        await client.open(1)
        try:
            if not client.send(Call(0, 0, build_payloads(plan)[0])):
                raise Refused("it takes no request")
            status = await asyncio.wait_for(sink.ended, plan.timeout_ns / 1e9)
            if status != OK:
                raise Refused(f"{status}: {sink.words}")
            return _said(plan, streams) if plan.stream is not None else ""
        except TimeoutError as error:
            raise TimeoutError(f"no answer in {plan.timeout_ns / 1e9:g} s") from error
        finally:
            await client.close()

    return asyncio.run(ask())
