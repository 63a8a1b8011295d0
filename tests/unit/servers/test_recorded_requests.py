"""Which requests a recorder keeps by their headers, read as the request ends or when all is over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.protocols.traceparent import parse_all
from inferbench_tasks.servers import tracing
from inferbench_tasks.servers.scheduler import Batch, Execution
from inferbench_tasks.servers.tracing import Recorder

ID, SPAN = b"a" * 32, b"b" * 16
PLAIN = b"00-%s-%s-01" % (ID, SPAN)
#: Eight entries of 256 bytes with their commas, less the last one's.
LONG = b",".join(b"k%d=%s" % (n, b"v" * 252) for n in range(8)).ljust(2048, b"v")
#: Headers ``traceparent`` and ``tracestate`` of a request each: usual ones, rare ones, and what is none.
HEADERS: dict[str, tuple[Sequence[bytes], Sequence[bytes]]] = {
    "plain": ([PLAIN], []),
    "with a state": ([PLAIN], [b"ot=th:f3333333333333"]),
    "with two states": ([PLAIN], [b"a=1", b"", b"b=2"]),
    "with a state that is none": ([PLAIN], [b"=;,"]),
    "with states that are none": ([PLAIN], [b"a=1", b"a=2"]),
    "with a state that is too long": ([PLAIN], [b"a=1," * 2000]),
    "with a long state": ([PLAIN], [b"a=" + b"1" * 200]),
    "with two states, as long as they may be": ([PLAIN], [LONG, LONG.replace(b"k", b"l")]),
    "with other flags": ([b"00-%s-%s-03" % (ID, SPAN)], [b"a=1"]),
    "of a later level": ([b"cc-%s-%s-01-more" % (ID, SPAN)], [b"a=1"]),
    "of a later level, as long": ([b"cc-%s-%s-01" % (ID, SPAN)], []),
    "not sampled": ([b"00-%s-%s-00" % (ID, SPAN)], []),
    "not sampled, with a state that is none": ([b"00-%s-%s-00" % (ID, SPAN)], [b"="]),
    "none at all": ([], [b"a=1"]),
    "several": ([PLAIN, PLAIN], []),
    "of no version": ([b"ff-%s-%s-01" % (ID, SPAN)], []),
    "of zeros": ([b"00-%s-%s-01" % (b"0" * 32, SPAN)], []),
    "no hexadecimal digits": ([b"00-%s-%s-01" % (b"X" * 32, SPAN)], [b"a=1"]),
    "cut off": ([PLAIN[:-1]], []),
    "too long": ([PLAIN + b"01"], []),
}


def told_of(folder: Path, all_headers: Sequence[tuple[Sequence[bytes], Sequence[bytes]]]) -> dict[str, Any]:
    """What a recorder tells of such requests, the n-th of n rows; written twice, as a server that ends does."""
    recorder = Recorder(folder / "told.json", framework=False)
    for number, (traceparents, tracestates) in enumerate(all_headers, 1):
        execution = Execution({}, number, lambda _: None, 40, None, None, 1, 2, 3, 4, Batch(0, 1, number))
        recorder.request(traceparents, (10, 20, 30, 60, 70), execution, tracestates)
    recorder.write([])
    recorder.write([])
    told: dict[str, Any] = json.loads((folder / "told.json").read_bytes())
    return told


@pytest.mark.parametrize("case", HEADERS)
def test_headers_are_taken_as_the_protocol_reads_them(case: str, tmp_path: Path) -> None:
    """Whenever they are read, a request is kept, left out or counted as its context says, and counted once."""
    traceparents, tracestates = HEADERS[case]
    context = parse_all(traceparents, tracestates)
    told = told_of(tmp_path, [(traceparents, tracestates)])
    kept = [(row["trace_id"], row["parent_id"], row.get("tracestate", "")) for row in told["requests"]]
    asks = context is not None and context.sampled
    assert kept == ([(context.trace_id, context.span_id, context.state)] if asks and context else [])
    assert told["ignored"] == (1 if traceparents and context is None else 0)
    assert told["ignored_states"] == (1 if context is not None and context.state_ignored else 0)
    assert told["lost"] == 0


def test_a_request_is_told_with_its_moments(tmp_path: Path) -> None:
    """Of those that ask each is told with its own rows, in the order in which they ended."""
    told = told_of(tmp_path, list(HEADERS.values()))
    asks = [
        number
        for number, headers in enumerate(HEADERS.values(), 1)
        if (context := parse_all(*headers)) is not None and context.sampled
    ]
    assert [row["rows"] for row in told["requests"]] == asks
    moments = {name: value for name, value in told["requests"][0].items() if name.endswith("_ns")}
    assert moments == {
        "started_ns": 10, "received_ns": 20, "decoded_ns": 30, "enqueued_ns": 40, "taken_ns": 41, "joined_ns": 43,
        "inferred_ns": 46, "split_ns": 50, "resumed_ns": 60, "encoded_ns": 70,
    }  # fmt: skip


def test_what_finds_no_room_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the most rows requests that ask are lost, and what does not ask or is none is neither lost nor kept."""
    monkeypatch.setattr(tracing, "MOST_ROWS", 2)
    names = [
        "plain",
        "not sampled",
        "with other flags",
        "with a state",
        "of a later level",
        "not sampled",
        "several",
    ]
    told = told_of(tmp_path, [HEADERS[name] for name in names])
    assert [row["rows"] for row in told["requests"]] == [1, 3]
    assert (told["lost"], told["ignored"]) == (2, 1)


def test_long_states_that_are_alike_are_kept_once(tmp_path: Path) -> None:
    """Each request's own would be hundreds of megabytes of a server that is measured; of many different ones at a time
    so many are."""
    recorder = Recorder(tmp_path / "told.json", framework=False)
    states = [b"a=" + bytes([97 + n % 3]) * 200 for n in range(300)]
    for state in states:
        execution = Execution({}, 1, lambda _: None, 40, None, None, 1, 2, 3, 4, Batch(0, 1, 1))
        recorder.request([PLAIN], (10, 20, 30, 60, 70), execution, [bytes(state)])
    assert len({id(kept[1]) for kept in recorder._requests}) == 3
    recorder.write([])
    told = json.loads((tmp_path / "told.json").read_bytes())
    assert [row["tracestate"] for row in told["requests"]] == [state.decode() for state in states]
