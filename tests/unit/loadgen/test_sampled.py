"""A share of a load's requests in traces of their own: which, and that the others are sent as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.clients.base import Payload
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.loadgen import sampled
from inferbench_tasks.loadgen.payloads import build_payloads
from inferbench_tasks.loadgen.plan import BatchShare, LoadPlan, Segment
from inferbench_tasks.loadgen.sampled import SampledPayloads
from inferbench_tasks.protocols.traceparent import one_in_context, parse

BODY = b"POST /x HTTP/1.1\r\nContent-Length: 1\r\n\r\n"
BUILT = [Payload(BODY + b"a", 0, 1), Payload(BODY + b"b", 1, 1), Payload(BODY + b"c", 2, 1)]


def test_a_request_that_is_sent_again_is_in_another_trace() -> None:
    """Requests are taken by their numbers, as senders do: each chosen one has a context of its own, the same bytes
    otherwise; all others are the very objects that were built.
    """
    payloads = SampledPayloads(BUILT, "load", 4, over_http=True)
    traces = set()
    for number in range(2_000):
        payload = payloads[number % len(payloads)]
        context = one_in_context("load", number, 4)
        built = BUILT[number % 3]
        if context is None:
            assert payload is built
            continue
        headers = f"\r\ntraceparent: {context}\r\ntracestate: ot=th:c\r\n".encode()
        assert payload.wire == built.wire.replace(b"\r\n", headers, 1)
        assert (payload.sample_index, payload.batch_size) == (built.sample_index, built.batch_size)
        traces.add(context.trace_id)
    assert 400 < len(traces) < 600


def test_over_grpc_the_message_is_not_touched() -> None:
    """The context is metadata beside it."""
    payloads = SampledPayloads(BUILT, "load", 1, over_http=False)
    for number in range(7):
        payload = payloads[number]
        assert payload.wire is BUILT[number % 3].wire
        (parent, value), (state, text) = payload.metadata
        assert (parent, state, text) == ("traceparent", "tracestate", "ot=th:0")
        assert parse(value.encode()) is not None
    assert payloads[:2] == BUILT[:2]


def planned(folder: Path, segment: Segment) -> LoadPlan:
    """A load of three samples."""
    np.savez(folder / "inputs.npz", x=np.arange(6, dtype=np.float32).reshape(3, 2))
    return LoadPlan(
        folder=str(folder),
        endpoint=Endpoint(protocol="http", host="127.0.0.1", port=1, model_name="m"),
        inputs_path=str(folder / "inputs.npz"),
        batches=(BatchShare(batch_size=1),),
        segments=(segment,),
        measure_start_ns=0,
        measure_end_ns=1,
        timeout_ns=1,
        connections=1,
        initial_connections=1,
    )


@pytest.mark.parametrize("over_http", [True, False])
@pytest.mark.parametrize("room", [sampled._AHEAD_BYTES, 5 * len(BUILT[0].wire), 0])
def test_what_is_drawn_ahead_is_what_is_drawn_as_it_leaves(
    room: int, over_http: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same requests are chosen, in the same traces, within those numbers and beyond them, and whether all, some or
    none of them could be made ahead.
    """
    monkeypatch.setattr(sampled, "_AHEAD_BYTES", room)
    late = SampledPayloads(BUILT, "load", 4, over_http=over_http)
    ahead = SampledPayloads(BUILT, "load", 4, over_http=over_http, ahead=range(100, 300))
    assert [ahead[number] for number in range(400)] == [late[number] for number in range(400)]


def test_chosen_requests_are_made_before_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the numbers ahead the very same object is given each time, and none is put into a context then."""
    payloads = SampledPayloads(BUILT, "load", 4, over_http=True, ahead=range(7, 107))

    def built(*args: object, **settings: object) -> None:
        raise AssertionError("a request is made as it leaves")

    monkeypatch.setattr(sampled, "in_context", built)
    assert all(payloads[number] is payloads[number] for number in range(7, 107))
    with pytest.raises(AssertionError, match="as it leaves"):
        [payloads[number] for number in range(107, 150)]


@pytest.mark.parametrize("kind", ["open", "closed"])
def test_nothing_is_drawn_while_measured_requests_leave(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an open loop all that there are are drawn before, of a closed one more than it will have here."""
    np.save(tmp_path / "measure.npy", np.arange(40, dtype=np.int64))
    segment = Segment(kind="closed", start_ns=0, end_ns=1, concurrency=1)
    if kind == "open":
        path = str(tmp_path / "measure.npy")
        segment = Segment(kind="open", start_ns=0, end_ns=1, offsets_path=path, first_request_id=10)
    plan = planned(tmp_path, segment).model_copy(update={"trace_seed": "s", "trace_one_in": 5})
    payloads = build_payloads(plan)

    def drawn(seed: str, number: int, one_in: int) -> None:
        raise AssertionError(f"{number} is drawn as it leaves")

    monkeypatch.setattr(sampled, "one_in_context", drawn)
    marked = [number for number in range(10, 50) if b"traceparent" in payloads[number].wire]
    assert marked == [number for number in range(10, 50) if one_in_context("s", number, 5)]
    if kind == "open":
        assert len(payloads) == 50


@pytest.mark.parametrize("room", [sampled._AHEAD_BYTES, 0])
def test_a_load_whose_times_are_known_is_a_list(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all its requests could be made ahead, the warm-up's too, a sender takes them from a list, as of a load
    without traces; they are those that it would draw as they leave.
    """
    monkeypatch.setattr(sampled, "_AHEAD_BYTES", room)
    segments = []
    for name, first, count in (("warmup", 0, 30), ("measure", 30, 70)):
        path = tmp_path / f"{name}.npy"
        np.save(path, np.arange(count, dtype=np.int64))
        segments.append(
            Segment(kind="open", start_ns=0, end_ns=1, offsets_path=str(path), first_request_id=first)
        )
    plan = planned(tmp_path, segments[-1]).model_copy(update={"segments": tuple(segments)})
    plain = build_payloads(plan)
    payloads = build_payloads(plan.model_copy(update={"trace_seed": "s", "trace_one_in": 5}))
    assert isinstance(payloads, list) == (room > 0)
    drawn = SampledPayloads(plain, "s", 5, over_http=True)
    assert [payloads[number % len(payloads)] for number in range(100)] == [drawn[n] for n in range(100)]
    if room:
        assert len(payloads) == 100


def test_a_plan_asks_for_it(tmp_path: Path) -> None:
    """With ``trace_one_in`` requests are chosen by their numbers; a seed alone puts each sample in a trace."""
    plan = planned(tmp_path, Segment(kind="open", start_ns=0, end_ns=1))
    plain = build_payloads(plan)
    assert not any(b"traceparent" in payload.wire for payload in plain)
    every = build_payloads(plan.model_copy(update={"trace_seed": "s"}))
    assert len(every) == 3 and all(b"traceparent" in payload.wire for payload in every)
    some = build_payloads(plan.model_copy(update={"trace_seed": "s", "trace_one_in": 5}))
    marked = [number for number in range(300) if b"traceparent" in some[number].wire]
    assert marked == [number for number in range(300) if one_in_context("s", number, 5)]
    assert all(some[n] == plain[n % 3] for n in range(300) if n not in marked)
    nobody = build_payloads(plan.model_copy(update={"trace_one_in": 5}))
    assert list(nobody) == list(plain)
