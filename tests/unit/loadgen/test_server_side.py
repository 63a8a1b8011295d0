"""The server's word beside the client's figures, against what a hand calculates."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from inferbench_tasks.clients.openai_form import ServerTimes, read_stream
from inferbench_tasks.loadgen.server_side import SERVER_FIGURES, SERVER_STREAMS, ServerSide, summarise_server
from inferbench_tasks.loadgen.token_share import withhold_all_times
from inferbench_tasks.loadgen.token_summary import Each, summarise_tokens
from tests.unit.loadgen.test_token_summary import stream, tokens_of


def side_of(streams: list[dict[str, Any]], said: list[dict[str, int]]) -> dict[str, Any]:
    """The figures of streams whose server said so of each; a request without words stands in no row."""
    tokens = tokens_of(*streams)
    rows = [(number, words) for number, words in zip(tokens.window.request_id, said, strict=True) if words]
    columns = {
        name: np.array(
            [number if name == "request_id" else words.get(name, -1) for number, words in rows], np.int64
        )
        for name in SERVER_STREAMS.names
    }
    return summarise_server(ServerSide.of(tokens, columns))


def words(queue_ms: float | None, prompt_ms: float, predicted_ms: float, later: int) -> dict[str, int]:
    """A server's word as the file has it."""
    told = {
        "server_prompt_us": round(prompt_ms * 1e3), "server_predicted_us": round(predicted_ms * 1e3),
        "server_later_tokens": later, "server_prompt_tokens": 10,
    }  # fmt: skip
    return told if queue_ms is None else {**told, "server_queue_us": round(queue_ms * 1e3)}


def test_the_difference_is_the_client_s_minus_the_server_s_of_each_request() -> None:
    """Two requests, sent 5 ms late: 100 and 220 ms to the first token, of which the server says 30 + 60 and 0 + 205;
    10 and 12 ms a token, of which it says 9 and 10. The parts add up to the time to the first token.
    """
    figures = side_of(
        [stream([100, 110, 120], 3), stream([220, 232, 244], 3)],
        [words(30, 60, 18, 2), words(0, 205, 20, 2)],
    )
    assert figures["server_queue_ms"]["mean"] == pytest.approx(15)
    assert figures["server_prompt_ms"]["mean"] == pytest.approx(132.5)
    assert figures["ttft_beyond_server_ms"]["mean"] == pytest.approx((10 + 15) / 2)
    assert figures["server_tpot_ms"]["mean"] == pytest.approx((9 + 10) / 2)
    assert figures["tpot_beyond_server_ms"]["mean"] == pytest.approx((1 + 2) / 2)
    assert figures["server_prompt_token_ms"] == pytest.approx(265 / 20)
    parts = figures["ttft_parts"]
    assert parts == pytest.approx(
        {"requests": 2, "told_ratio": 1, "ttft_ms": 160, "client_ms": 5, "server_queue_ms": 15,
         "server_prompt_ms": 132.5, "between_ms": 7.5}
    )  # fmt: skip
    names = ("client_ms", "server_queue_ms", "server_prompt_ms", "between_ms")
    assert sum(parts[name] for name in names) == pytest.approx(parts["ttft_ms"])


def test_what_is_not_told_is_null_and_only_the_same_requests_are_compared() -> None:
    """A server without words has no figure. Of two answers one tells, no queue, and of a failed one nothing counts."""
    silent = side_of([stream([100, 110], 2)], [{}])
    assert {silent[name] for name in (*SERVER_FIGURES, "server_prompt_token_ms", "ttft_parts")} == {None}
    figures = side_of(
        [stream([100, 110], 2), stream([500, 510], 2), stream([900, 990], 2, status="stream_unfinished")],
        [words(None, 80, 9, 1), {}, words(None, 1, 1, 1)],
    )
    assert figures["server_queue_ms"] is None and figures["ttft_parts"]["server_queue_ms"] is None
    assert figures["ttft_beyond_server_ms"]["mean"] == pytest.approx(20)
    assert (figures["ttft_parts"]["requests"], figures["ttft_parts"]["told_ratio"]) == (1, 0.5)
    assert figures["ttft_parts"]["between_ms"] == pytest.approx(15)


def test_times_of_a_load_that_depend_on_its_length_are_withheld_with_the_server_s() -> None:
    """A queue that grows is no figure of the server, by whoever's word."""
    tokens = tokens_of(stream([100, 110], 2))
    columns = {
        name: np.array([tokens.window.request_id[0] if name == "request_id" else 9])
        for name in SERVER_STREAMS.names
    }
    figures = {**summarise_tokens(tokens, Each()), **summarise_server(ServerSide.of(tokens, columns))}
    withhold_all_times(figures, "growing_backlog")
    assert figures["ttft_parts"] is None
    assert {figures[name]["mean"] for name in SERVER_FIGURES} == {None}


def test_timings_of_the_last_chunk_are_read_as_llama_cpp_has_them() -> None:
    """Its clock begins with the first of 8 tokens, so that seven follow; a proxy's nonsense is not told."""
    finish = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "length"}]}
    timings: dict[str, Any] = {
        "cache_n": 36, "prompt_n": 1, "prompt_ms": 14.534, "predicted_n": 8, "predicted_ms": 104.495,
    }  # fmt: skip

    def read(timings: Any) -> ServerTimes | None:
        chunks = (finish, {"choices": [], "timings": timings})
        return read_stream(b"".join(b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks)).times

    assert read(timings) == ServerTimes(None, 14534, 1, 36, 104495, 7)
    assert read({**timings, "first_n": 4, "queue_ms": 2}) == ServerTimes(2000, 14534, 1, 36, 104495, 4)
    assert read({"prompt_ms": -1, "predicted_ms": "x", "prompt_n": True, "queue_ms": 1e300}) == ServerTimes()
    assert read([1]) is None
