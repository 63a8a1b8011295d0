"""What becomes of each span, by what a collector answers; by hand, without a collector."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from inferbench_tasks.errors import InputError
from inferbench_tasks.tracing.forms.otlp_protobuf import Batch, batches, content
from inferbench_tasks.tracing.push.base import Answer, Later, Refused, Taken, taken
from inferbench_tasks.tracing.push.http import read, retry_after_s
from inferbench_tasks.tracing.push.send import Pushed, push
from inferbench_tasks.tracing.push.target import HEADERS, headers, target_of
from inferbench_tasks.tracing.spans import Span, table_of


class Scripted:
    """Answers in turn, the last one for ever."""

    address = "somewhere"

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)

    def send(self, content: bytes) -> Answer:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def close(self) -> None:
        """Nothing is open."""


def pushed(*answers: Answer, give_up_after_s: float = 10.0, count: int = 3) -> tuple[Pushed, list[float]]:
    """Batches of ten spans; and how long was waited, on a clock that only waiting moves."""
    waits: list[float] = []
    found = push(
        [Batch(b"x", 10)] * count,
        10 * count,
        Scripted(*answers),
        give_up_after_s=give_up_after_s,
        sleep=waits.append,
        clock=lambda: sum(waits),
    )
    assert found.accepted + found.rejected + found.unknown + found.not_sent == found.spans
    return found, waits


def test_waits_double_and_are_the_collectors_where_it_says() -> None:
    """0.5, 1, 2 s, each up to half longer; 4 s where it asks for them; and the clock begins anew with each batch."""
    found, waits = pushed(Later("a"), Later("b"), Later("c"), Taken(), Later("d", after_s=4.0), Taken())
    assert found.complete and found.tries == 7
    for wait, least in zip(waits, (0.5, 1.0, 2.0), strict=False):
        assert least <= wait <= 1.5 * least
    assert waits[3] == 4.0


def test_patience_ends() -> None:
    """What the collector took before stays, the rest is not sent; one that asks for an hour is not waited for."""
    found, waits = pushed(Taken(), Later("full"), give_up_after_s=3.0)
    assert (found.accepted, found.not_sent, found.unknown) == (10, 20, 0) and sum(waits) <= 3.0
    found, waits = pushed(Later("full", after_s=3600.0))
    assert waits == [] and any("asks for 3600 s" in words for words in found.words)


def test_what_nobody_answered_for_is_unknown_or_perhaps_twice() -> None:
    """A lost answer: repeated once it is taken, unknown where it is given up or refused afterwards."""
    lost = Later("reset", unsure=True)
    found, _ = pushed(lost, Taken())
    assert found.complete and found.repeated == 10
    found, _ = pushed(lost, Later("full"), give_up_after_s=2.0)
    assert (found.unknown, found.not_sent) == (10, 20)
    found, _ = pushed(lost, Refused("no", all=False), Taken())
    assert (found.unknown, found.rejected, found.accepted) == (10, 0, 20)


def test_a_collector_can_not_reject_more_than_there_was() -> None:
    """Nor less than nothing: the sum stays."""
    found, _ = pushed(Taken(rejected=99), Taken(rejected=-5), Taken(rejected=1))
    assert (found.rejected, found.accepted) == (11, 19)


def spans(count: int) -> list[Span]:
    """Of two services, each span within the one before it, whichever service's it is."""
    return [
        Span("a" * 32, at, at - 1, "foreign", f"s{at}", 1_000 + at, 5, attributes={"otlp": {"service": f"s{at % 2}"}})
        for at in range(count)
    ]  # fmt: skip


def test_batches_are_bounded_and_together_the_file() -> None:
    """At most 3 spans, or so many bytes; a parent in another batch is named by its id all the same."""
    table = table_of(spans(20))
    parts = list(batches(table, {}, 3))
    assert [part.spans for part in parts] == [3, 3, 3, 1] * 2
    read_ = [ExportTraceServiceRequest.FromString(part.content) for part in parts]
    found = [s for part in read_ for r in part.resource_spans for scope in r.scope_spans for s in scope.spans]
    by_name = {span.name: span for span in found}
    assert len(by_name) == 20 and by_name["s0"].parent_span_id == b""
    assert all(by_name[f"s{at}"].parent_span_id == by_name[f"s{at - 1}"].span_id for at in range(1, 20))
    whole = ExportTraceServiceRequest.FromString(content(table, {}))
    assert sorted(s.name for r in whole.resource_spans for s in r.scope_spans[0].spans) == sorted(by_name)
    small = list(batches(table, {}, 1000, most_bytes=1))
    assert [part.spans for part in small] == [1] * 20


def test_times_that_otlp_has_not_are_refused_before_anything_is_sent() -> None:
    """The last span is of 1969: no batch comes out."""
    table = table_of([*spans(5), Span("a" * 32, 5, -1, "foreign", "old", -5, 1)])
    with pytest.raises(InputError, match=r"'old', span 5, is of before 1970"):
        next(batches(table, {}, 1))


@pytest.mark.parametrize(
    ("code", "more", "expected"),
    [
        (200, {}, Taken()),
        (204, {}, Taken()),
        (429, {"headers": {"retry-after": "7"}, "text": "slow"}, Later("HTTP 429: slow", 7.0)),
        (503, {"text": "a\nb"}, Later("HTTP 503: a b")),
        (504, {}, Later("HTTP 504", unsure=True)),
        (400, {"text": "bad"}, Refused("HTTP 400: bad", all=False)),
        (404, {}, Refused("HTTP 404", all=True)),
        (500, {}, Refused("HTTP 500", all=True)),
        (200, {"json": {"partialSuccess": {"rejectedSpans": "2", "errorMessage": "x"}}}, Taken(2, "x")),
        (200, {"json": {}}, Taken()),
    ],
)
def test_what_http_answers_mean(code: int, more: dict[str, object], expected: Answer) -> None:
    """OTLP's table of codes; of a proxy that does not know (504) it is not sure whether they are there."""
    answer = httpx.Response(code, **more)  # type: ignore[arg-type]
    assert read(answer, answer.content) == expected


def test_a_page_is_no_answer_of_a_collector() -> None:
    """Any web server says 200: it is told that this is none, and nothing more is sent there."""
    answer = taken(b"<html>Welcome</html>")
    assert isinstance(answer, Refused) and answer.all and "is it a collector" in answer.reason


def test_retry_after_in_both_forms() -> None:
    """Seconds or a date; anything else is as if it were not there."""
    assert retry_after_s("120") == 120.0 and retry_after_s(None) is None and retry_after_s("soon") is None
    at = datetime.now(UTC) + timedelta(seconds=50)
    found = retry_after_s(format_datetime(at, usegmt=True))
    assert found is not None and 40 < found <= 50
    assert retry_after_s("Fri, 31 Dec 1999 23:59:59 GMT") == 0.0


@pytest.mark.parametrize(
    ("text", "over", "address", "encrypted"),
    [
        ("http://h:4318", "http", "http://h:4318/v1/traces", False),
        ("https://h/otlp/", "http", "https://h/otlp/v1/traces", True),
        ("http://h:4318/v1/traces", "http", "http://h:4318/v1/traces", False),
        ("grpc://h", "grpc", "h:4317", False),
        ("grpcs://[::1]:99/", "grpc", "[::1]:99", True),
    ],
)
def test_addresses(text: str, over: str, address: str, encrypted: bool) -> None:
    """A base address gets the path of traces, as OpenTelemetry's setting has it; gRPC has a port of its own."""
    found = target_of(text)
    assert (found.over, found.address, found.encrypted) == (over, address, encrypted)


@pytest.mark.parametrize(
    "text",
    ["h:4318", "ftp://h", "http://", "grpc://h/x", "http://u:p@h", "http://h:99999", "http://h?q=1"],
)
def test_what_is_no_address(text: str) -> None:
    """Said with what is allowed; a password is not repeated."""
    with pytest.raises(InputError, match="--to") as raised:
        target_of(text)
    assert "u:p" not in str(raised.value)


def test_headers_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting for traces goes before the general one; what is no header is refused without being shown."""
    monkeypatch.setenv(HEADERS[1], "a=1")
    assert headers() == {"a": "1"}
    monkeypatch.setenv(HEADERS[0], " API-Key = x%3Dy , b=2,")
    assert headers() == {"api-key": "x=y", "b": "2"}
    for wrong in ("s3cret", "a b=s3cret", "a=s3cret%0d%0aevil:1"):
        monkeypatch.setenv(HEADERS[0], wrong)
        with pytest.raises(InputError, match=f"{HEADERS[0]}: the 1. entry") as raised:
            headers()
        assert "s3cret" not in str(raised.value)
