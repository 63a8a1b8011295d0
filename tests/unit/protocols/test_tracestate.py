"""W3C's ``tracestate``: what is one, how several headers are one, and OpenTelemetry's word for a share of traces."""

from __future__ import annotations

import hashlib

import pytest

from inferbench_tasks.protocols.traceparent import (
    TraceContext,
    metadata_of,
    one_in_context,
    parse_all,
    with_header,
)
from inferbench_tasks.protocols.tracestate import is_chosen, one_in_state, read_state

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01".encode()


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ([b"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"], "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        ([b"a=1", b"b=2 , c=3"], "a=1,b=2,c=3"), ([b"a=1,,b=2", b""], "a=1,b=2"), ([b""], ""), ([], ""),
        ([b"fw529a3039@dt=FfEa;1"], "fw529a3039@dt=FfEa;1"), ([b"a= 1"], "a= 1"), ([b"a/b*c-d_e=~!"], "a/b*c-d_e=~!"),
        ([b",".join(b"k%d=v" % n for n in range(32))], ",".join(f"k{n}=v" for n in range(32))),
    ],
)  # fmt: skip
def test_a_state_is_its_entries_in_their_order(values: list[bytes], state: str) -> None:
    """Several headers are one list; blanks around entries and empty entries are none of it (W3C, 3.3.1)."""
    assert read_state(values) == state


@pytest.mark.parametrize(
    "value",
    [
        b"a", b"=1", b"a=", b"A=1", b"a=1,a=2", b"a=b=c", "a=\u00e9".encode(), b"a=1\n", b"a\t=1", b"@a=1",
        b"k" * 257 + b"=1", b"a=" + b"v" * 257, b",".join(b"k%d=v" % n for n in range(33)), b"a=1," + b" " * 5000,
    ],
)  # fmt: skip
def test_what_is_none_is_ignored_and_the_context_stands(value: bytes) -> None:
    """A key twice, other characters, too long, too many: the request is in its trace all the same, without a state."""
    assert read_state([value]) is None
    context = parse_all([PARENT], [value])
    assert context is not None
    assert (context.trace_id, context.state, context.state_ignored) == (TRACE, "", True)


def test_a_state_counts_only_with_a_context() -> None:
    """Beside a good traceparent it is read; beside none, or a broken one, nothing is."""
    context = parse_all([PARENT], [b"a=1", b"b=2"])
    assert context == TraceContext(TRACE, SPAN, True, "a=1,b=2")
    assert parse_all([], [b"a=1"]) is parse_all([b"00-nonsense"], [b"a=1"]) is None


def test_it_is_carried_beside_the_context() -> None:
    """As a header of a prebuilt request whose body is not touched, and as metadata; without one there is none."""
    context = TraceContext(TRACE, SPAN, True, "a=1,b=2")
    wire = with_header(b"POST /x HTTP/1.1\r\nContent-Length: 4\r\n\r\na\r\nb", context)
    head = f"POST /x HTTP/1.1\r\ntraceparent: {context}\r\ntracestate: a=1,b=2\r\n"
    assert wire == f"{head}Content-Length: 4\r\n\r\na\r\nb".encode()
    assert metadata_of(context) == (("traceparent", str(context)), ("tracestate", "a=1,b=2"))
    assert metadata_of(context._replace(state="")) == (("traceparent", str(context)),)


@pytest.mark.parametrize(
    ("one_in", "state"), [(1, "ot=th:0"), (2, "ot=th:8"), (4, "ot=th:c"), (20, "ot=th:f3333333333333")]
)
def test_the_probability_is_told_as_opentelemetry_has_it(one_in: int, state: str) -> None:
    """1 - 1/N of 2^56 in hexadecimal, without zeros at its end: 0.95 of it is f3333333333333."""
    assert one_in_state(one_in) == state
    threshold = int(state.removeprefix("ot=th:").ljust(14, "0"), 16)
    assert (1 - threshold / 2**56) == pytest.approx(1 / one_in, rel=1e-12)
    for randomness, chosen in ((threshold, True), (threshold - 1, False), (2**56 - 1, True)):
        if randomness >= 0:
            assert is_chosen(f"{'a' * 18}{randomness:014x}", one_in) is chosen


@pytest.mark.parametrize("one_in", [1, 3, 20])
def test_one_in_so_many_is_chosen_by_chance(one_in: int) -> None:
    """Of 20,000 as many as that, within five standard deviations; who receives one can tell that it was; no pattern:
    of requests that recur in batches of 20 each place is met.
    """
    count = 20_000
    contexts = {number: one_in_context("load", number, one_in) for number in range(count)}
    chosen = [number for number, context in contexts.items() if context is not None]
    expected = count / one_in
    assert abs(len(chosen) - expected) <= 5 * (expected * (1 - 1 / one_in)) ** 0.5
    assert {number % 20 for number in chosen} == {*range(20)}
    for number in chosen[:50]:
        context = contexts[number]
        assert context is not None and context.sampled and context.state == one_in_state(one_in)
        assert is_chosen(context.trace_id, one_in)
        assert context.trace_id == hashlib.sha256(f"load\n{number}".encode()).hexdigest()[:32]
    assert one_in_context("load", chosen[0], one_in) == contexts[chosen[0]]
