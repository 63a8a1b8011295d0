"""W3C's ``traceparent``: what is one, what is to be ignored, and how a prebuilt request carries it."""

from __future__ import annotations

import pytest

from inferbench_tasks.protocols.traceparent import (
    TraceContext,
    context_of,
    metadata_of,
    parse,
    parse_all,
    with_header,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_the_specifications_example() -> None:
    """The header of the specification is read, and written again as it was."""
    text = f"00-{TRACE}-{SPAN}-01"
    context = parse(text.encode())
    assert context == TraceContext(TRACE, SPAN, True)
    assert str(context) == text


@pytest.mark.parametrize(
    "value",
    [
        "", "00", f"00-{TRACE}-{SPAN}", f"00-{TRACE.upper()}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n", f" 00-{TRACE}-{SPAN}-01",
    ],
)  # fmt: skip
def test_what_is_none_is_ignored(value: str) -> None:
    """Zero ids, the forbidden version, upper case, parts too many or too few: no context, as W3C asks."""
    assert parse(value.encode()) is None


def test_later_versions_and_other_flags() -> None:
    """A later version may have more behind; of the flags the lowest bit says whether to sample."""
    assert parse(f"cc-{TRACE}-{SPAN}-01-what-the-future-has".encode()) == TraceContext(TRACE, SPAN, True)
    assert parse(f"00-{TRACE}-{SPAN}-02".encode()) == TraceContext(TRACE, SPAN, False)


def test_each_request_has_a_trace_of_its_own() -> None:
    """Samples and loads differ; the same ones agree, so that client and report need not tell each other."""
    contexts = {context_of(seed, sample) for seed in ("a", "b") for sample in range(50)}
    assert len({context.trace_id for context in contexts}) == 100
    assert context_of("a", 7) == context_of("a", 7)
    assert all(parse(str(context).encode()) == context for context in contexts)


def test_a_prebuilt_request_carries_it() -> None:
    """One more header behind the first line; the rest is as it was, the body too."""
    context = TraceContext(TRACE, SPAN)
    wire = with_header(b"POST /x HTTP/1.1\r\nContent-Length: 4\r\n\r\na\r\nb", context)
    assert wire == f"POST /x HTTP/1.1\r\ntraceparent: {context}\r\nContent-Length: 4\r\n\r\na\r\nb".encode()


def test_several_are_none() -> None:
    """One context is one; two headers of that name contradict each other, even where they say the same."""
    value = str(TraceContext(TRACE, SPAN)).encode()
    assert parse_all([value]) == TraceContext(TRACE, SPAN)
    assert parse_all([]) is parse_all([value, value]) is parse_all([b"00-nonsense"]) is None


def test_metadata_of_grpc_carry_it() -> None:
    """The name in small letters, as HTTP/2 asks, and the same value."""
    assert metadata_of(TraceContext(TRACE, SPAN)) == (("traceparent", f"00-{TRACE}-{SPAN}-01"),)
