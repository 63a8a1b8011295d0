"""Every form and fault of a stream of tokens, over real sockets from a real process, by both clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from inferbench_tasks.clients.answers import AnswerCheck
from inferbench_tasks.clients.base import OK, Call, ClientSettings, Payload, Sink, client_factory
from inferbench_tasks.clients.openai_form import (
    StreamTarget,
    StreamText,
    decode_answer,
    encode_request,
    read_stream,
)
from inferbench_tasks.clients.stream_file import KeptStreams
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.requests.ragged import objects
from tests.llm_stand_in import StandIn, stand_in

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """One that every test of the module asks for a pace of its own, by the model's name."""
    with stand_in(tmp_path_factory.mktemp("stand-in"), "--pace", "ttft_ms=20,gap_ms=4") as running:
        yield running


class _Ends(Sink):
    """How every call ended."""

    def __init__(self, count: int) -> None:
        self.statuses: dict[int, str] = {}
        self.words: dict[str, str] = {}
        self.over = asyncio.Event()
        self._count = count

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        self.statuses[call.request_id] = status
        if len(self.statuses) == self._count:
            self.over.set()

    def ready(self) -> None:
        """Nothing waits."""

    def again(self, call: Call) -> None:
        raise AssertionError("HTTP/1.1 never hands a call back")

    def unreachable(self, reason: str) -> None:
        raise AssertionError(reason)

    def explain(self, status: str, text: str) -> None:
        self.words.setdefault(status, text)


def exchange(
    server: StandIn,
    client: str,
    models: list[str],
    *,
    tokens: int = 12,
    api: str = "chat",
    patient: bool = True,
) -> tuple[dict[str, str], dict[str, StreamText], _Ends]:
    """Ask every model once, all at the same time: status and stream of each."""
    kept = KeptStreams()
    target = StreamTarget(path="/v1/chat/completions" if api == "chat" else "/v1/completions")
    endpoint = Endpoint(protocol="openai", host="127.0.0.1", port=server.port, model_name="")

    def wire(model: str) -> bytes:
        text = {"messages": [{"role": "user", "content": "a b c"}]} if api == "chat" else {"prompt": "a b c"}
        body = {
            "model": model,
            "stream": True,
            "max_tokens": tokens,
            "stream_options": {"include_usage": True},
            **text,
        }
        return encode_request(endpoint, target, {"request": objects([json.dumps(body).encode()])})

    async def ask() -> _Ends:
        sink = _Ends(len(models))
        settings = ClientSettings(endpoint, connections=len(models), target=target, streams=kept)
        made = client_factory("openai", client)(
            settings, asyncio.get_running_loop(), sink, AnswerCheck(decode_answer)
        )
        await made.open(len(models))
        try:
            for number, model in enumerate(models):
                assert made.send(Call(number, 0, Payload(wire(model), number, 1)))
            await asyncio.wait_for(sink.over.wait(), 60)
        finally:
            await made.close()
        return sink

    sink = asyncio.run(ask())
    streams = {
        model: read_stream(bytes(kept[number].body), tokens)
        for number, model in enumerate(models)
        if number in kept
    }
    return {model: sink.statuses[number] for number, model in enumerate(models)}, streams, sink


FORMS = [
    "line_end=crlf", "line_end=cr", "comments=true", "done=false", "chunked=false", "split=7", "role=false",
    "usage_each=true", "tokens_per_chunk=5", "first_tokens=3", "line_end=crlf,split=1,comments=true,chunked=false",
]  # fmt: skip

#: Fault -> what becomes of it: by the client itself or, of a stream that HTTP ended well, after the load.
FAULTS = {
    "unfinished": "stream_unfinished", "cut": "reset", "error_event": "stream_error", "bad_utf8": "stream_encoding",
    "bad_json": "stream_json", "role_only": "stream_empty", "too_many": "stream_too_many", "low_usage": "stream_usage",
    "plain": "stream_missing", "http_429": "http_4xx", "http_503": "http_5xx", "endless": "stream_too_large",
}  # fmt: skip


@pytest.mark.parametrize("client", ["fast", "reference"])
@pytest.mark.parametrize("api", ["chat", "completions"])
def test_every_form_of_a_stream_says_the_same(server: StandIn, client: str, api: str) -> None:
    """Whatever its line ends, comments, chunks and pieces: twelve tokens, counted by the server too."""
    models = [f"stand-in:ttft_ms=1,gap_ms=0.1,{form}" for form in FORMS]
    statuses, streams, _ = exchange(server, client, models, api=api)
    assert set(statuses.values()) == {OK}
    for stream in streams.values():
        assert stream.problem is None
        assert (stream.output_tokens, stream.prompt_tokens, stream.finish_reason) == (12, 3, "length")
        assert sum(stream.text_bytes) == 12 * 5
        assert "no model" in stream.said[1]
    chunks = {model: stream.chunks for model, stream in streams.items()}
    assert chunks[f"stand-in:ttft_ms=1,gap_ms=0.1,{FORMS[8]}"] == 3  # 5 + 5 + 2
    assert chunks[f"stand-in:ttft_ms=1,gap_ms=0.1,{FORMS[9]}"] == 10  # 3 + 9 x 1


@pytest.mark.parametrize("client", ["fast", "reference"])
def test_every_fault_has_its_name(server: StandIn, client: str) -> None:
    """By both clients the same; none is an answer."""
    models = [f"stand-in:ttft_ms=1,gap_ms=0.1,fault={fault}" for fault in FAULTS]
    statuses, streams, sink = exchange(server, client, models)
    for fault, model in zip(FAULTS, models, strict=True):
        problem = streams[model].problem if statuses[model] == OK else None
        assert (problem[0] if problem else statuses[model]) == FAULTS[fault], fault
    assert "the stand-in was told so" in sink.words["http_4xx"]
