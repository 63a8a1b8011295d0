"""The server's word beside the client's figures, against what a hand calculates."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from inferbench_tasks.clients.openai_form import ServerTimes, read_stream
from inferbench_tasks.loadgen.evidence import ShardUsage
from inferbench_tasks.loadgen.server_side import (
    SERVER_FIGURES,
    SERVER_STREAMS,
    ServerSide,
    settle_parts,
    summarise_server,
)
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.loadgen.token_share import withhold_all_times, withhold_clients_times
from inferbench_tasks.loadgen.token_summary import Each, summarise_tokens
from tests.unit.loadgen.streams_by_hand import MS, stream, tokens_of


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
        "server_later_tokens": later, "server_predicted_tokens": later + 1, "server_prompt_tokens": 10,
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
    assert figures["ttft_beyond_server_ms"]["mean"] == pytest.approx((5 + 10) / 2)  # from the send
    assert figures["server_tpot_ms"]["mean"] == pytest.approx((9 + 10) / 2)
    assert figures["tpot_beyond_server_ms"]["mean"] == pytest.approx((1 + 2) / 2)
    assert figures["server_prompt_token_ms"] == pytest.approx(265 / 20)
    parts = figures["ttft_parts"]
    assert parts == pytest.approx(
        {"requests": 2, "good": 2, "impossible": 0, "ttft_ms": 160, "client_ms": 5, "server_queue_ms": 15,
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
    assert figures["ttft_beyond_server_ms"]["mean"] == pytest.approx(15)
    assert (figures["ttft_parts"]["requests"], figures["ttft_parts"]["good"]) == (1, 2)
    assert figures["ttft_parts"]["between_ms"] == pytest.approx(15)


def test_a_time_per_token_is_of_the_same_tokens_on_both_sides() -> None:
    """9 and 10 ms a token of one request. One that came at once and one of other tokens than usage has do not count."""
    figures = side_of(
        [stream([100, 110, 120], 3), stream([50] * 3, 3, reads=1), stream([100, 110, 120], 3)],
        [words(0, 90, 18, 2), words(0, 40, 400, 2), words(0, 90, 2.0, 20)],
    )
    assert (figures["server_tpot_ms"]["count"], figures["tpot_beyond_server_ms"]["count"]) == (1, 1)
    assert figures["server_tpot_ms"]["mean"] == pytest.approx(9)
    assert figures["tpot_beyond_server_ms"]["mean"] == pytest.approx(1)


def test_parts_are_of_those_that_tell_their_queue_and_impossible_words_are_counted() -> None:
    """One of two tells a queue of 60 ms: the parts are its own. Of 180 and 5 ms within 95 one can't be."""
    figures = side_of([stream([100, 110], 2)] * 2, [words(60, 30, 9, 1), words(None, 30, 9, 1)])
    assert figures["ttft_parts"]["requests"] == 1 and figures["ttft_parts"]["server_queue_ms"] == 60
    figures = side_of([stream([100, 110], 2)] * 2, [words(None, 180, 9, 1), words(None, 5, 9, 1)])
    assert figures["ttft_parts"]["impossible"] == 1


def test_a_late_stamp_is_most_of_what_lies_beyond_the_server() -> None:
    """600 requests, their server 6 ms shorter than what the client saw from the send. Eight were stamped 20 ms late:
    nothing of a p99 of seconds, and most of that of the difference, which is withheld; so are the parts where all were.
    """
    times = np.linspace(100, 2000, 600)
    late = np.arange(600) < 8
    streams = [stream([ms + 20 * held, ms + 100], 2) for ms, held in zip(times, late, strict=True)]
    tokens = tokens_of(*streams, intended_s=list(np.linspace(11, 17, 600)))
    said = [words(0, ms - 5 - 6, 90, 1) for ms in times]
    columns = {
        name: np.array([number if name == "request_id" else told.get(name, -1) for number, told in
                        zip(tokens.window.request_id, said, strict=True)], np.int64)
        for name in SERVER_STREAMS.names
    }  # fmt: skip

    def judged(number: int) -> dict[str, Any]:
        side = ServerSide.of(tokens, columns)
        summary = {**summarise_tokens(tokens, Each()), **summarise_server(side)}
        held = tuple(
            (int(moment) - 20 * MS, int(moment)) for moment in sorted(tokens.first_token_ns[:number])
        )
        usage = ShardUsage(shard=0, cpu_s=1.0, wall_s=9.0, max_stall_ns=20 * MS, stalls_ns=held, stalled_ns=1)
        withhold_clients_times(summary, tokens, (usage,), Thresholds(), paced=True, server=side)
        settle_parts(summary)
        return summary

    few = judged(8)
    assert few["ttft_beyond_server_ms"]["p50"] == pytest.approx(6, abs=0.01)
    assert few["ttft_beyond_server_ms"]["p99"] is None and few["ttft_parts"] is not None
    assert judged(600)["ttft_beyond_server_ms"]["mean"] is None and judged(600)["ttft_parts"] is None


def test_parts_of_a_mean_that_is_withheld_are_no_figures() -> None:
    """A request that failed after a minute: nobody knows the mean time to the first token, nor its parts."""
    tokens = tokens_of(stream([100, 110], 2), stream([60_000], 2, status="stream_unfinished"))
    columns = {
        name: np.array([tokens.window.request_id[0] if name == "request_id" else 9])
        for name in SERVER_STREAMS.names
    }
    summary = {**summarise_tokens(tokens, Each()), **summarise_server(ServerSide.of(tokens, columns))}
    assert summary["ttft_ms"]["mean"] is None and summary["ttft_parts"] is not None
    settle_parts(summary)
    assert summary["ttft_parts"] is None


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
    times = [figures[name]["mean"] for name in SERVER_FIGURES if "tpot" not in name]
    assert set(times) == {None} and figures["server_prompt_token_ms"] is None
    assert figures["server_tpot_ms"] is None  # nine tokens, by a server that was asked for two


def test_timings_of_the_last_chunk_are_read_as_llama_cpp_has_them() -> None:
    """Its clock begins with the first of 8 tokens, so that seven follow; a proxy's nonsense is not told."""
    finish = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "length"}]}
    timings: dict[str, Any] = {
        "cache_n": 36, "prompt_n": 1, "prompt_ms": 14.534, "predicted_n": 8, "predicted_ms": 104.495,
    }  # fmt: skip

    def read(timings: Any) -> ServerTimes | None:
        chunks = (finish, {"choices": [], "timings": timings})
        return read_stream(b"".join(b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks)).times

    assert read(timings) == ServerTimes(None, 14534, 1, 36, 104495, 8, 7)
    assert read({**timings, "first_n": 4, "queue_ms": 2}) == ServerTimes(2000, 14534, 1, 36, 104495, 8, 4)
    assert read({"prompt_ms": -1, "predicted_ms": "x", "prompt_n": True, "queue_ms": 1e300}) == ServerTimes()
    assert read([1]) is None
    late = {"choices": [{"index": 0, "delta": {"content": "b"}, "finish_reason": None}]}
    body = [{**late, "timings": timings}, finish]
    assert read_stream(b"".join(b"data: " + orjson.dumps(c) + b"\n\n" for c in body)).times is None
