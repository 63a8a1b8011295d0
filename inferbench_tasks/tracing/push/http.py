"""OTLP over HTTP: protobuf, packed by gzip, one request at a time over one connection."""

from __future__ import annotations

import gzip
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx
import orjson

from inferbench_tasks.protocols import otlp_proto
from inferbench_tasks.tracing.push.base import (
    NO_ANSWER,
    TIMEOUT_S,
    Answer,
    Later,
    Refused,
    Taken,
    shortened,
    taken,
)
from inferbench_tasks.tracing.push.target import Target

_PROTOBUF = "application/x-protobuf"
#: "Retryable Response Codes"; of the second kind are those of a proxy that does not know what became of the request.
_NOT_TAKEN, _UNSURE = (429, 503), (502, 504)
#: Of one request alone; others are of all.
_OF_ONE = (400, 413, 422)
_MOST_BYTES = 1 << 20


class HttpReceiver:
    """See ``base.Receiver``."""

    def __init__(self, target: Target) -> None:
        self.address = target.address
        own = {
            "content-type": _PROTOBUF,
            "content-encoding": "gzip",
            "accept-encoding": "identity",  # what is read of an answer is bounded as it came
            "user-agent": "inferbench",
        }
        # A redirection would take the login somewhere else.
        self._client = httpx.Client(
            headers=target.headers | own, timeout=httpx.Timeout(TIMEOUT_S), follow_redirects=False
        )

    def close(self) -> None:
        self._client.close()

    def send(self, content: bytes) -> Answer:
        deadline_s = time.monotonic() + TIMEOUT_S
        try:
            with self._client.stream("POST", self.address, content=gzip.compress(content)) as answer:
                body = b""
                for piece in answer.iter_raw():
                    body += piece
                    if len(body) > _MOST_BYTES:
                        words = f"its answer has more than {_MOST_BYTES:,} bytes"
                        return Refused(words, all=True, unsure=True)
                    if time.monotonic() > deadline_s:
                        return Later(f"no whole answer in {TIMEOUT_S:g} s", unsure=True)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return Later(f"it can't be reached: {shortened(str(error)) or 'no answer'}")
        except httpx.TransportError as error:
            words = shortened(str(error)) or type(error).__name__
            return Later(f"no answer came: {words}", unsure=True)
        return read(answer, body)


def read(answer: httpx.Response, body: bytes) -> Answer:
    """What its status and its body mean."""
    code = answer.status_code
    if answer.is_success:
        return _of_json(body) if _is(answer, "application/json") else taken(body)
    told = _words(answer, body)
    reason = f"HTTP {code}{f': {told}' if told else ''}"
    if code in (*_NOT_TAKEN, *_UNSURE):
        return Later(reason, retry_after_s(answer.headers.get("retry-after")), unsure=code in _UNSURE)
    if answer.has_redirect_location:
        reason += f" to {shortened(answer.headers['location'])}; give that address if it is the right one"
    return Refused(reason, all=code not in _OF_ONE)


def retry_after_s(value: str | None) -> float | None:
    """Seconds, or a date; None where it is neither (RFC 9110, 10.2.3)."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def _of_json(body: bytes) -> Answer:
    """Some answer in JSON whatever they were asked in."""
    try:
        partial = orjson.loads(body).get("partialSuccess") or {}
        return Taken(int(partial.get("rejectedSpans", 0)), shortened(str(partial.get("errorMessage", ""))))
    except (ValueError, TypeError, AttributeError):
        return NO_ANSWER


def _is(answer: httpx.Response, media_type: str) -> bool:
    return str(answer.headers.get("content-type", "")).partition(";")[0].strip().lower() == media_type


def _words(answer: httpx.Response, body: bytes) -> str:
    """What an error says: a ``google.rpc.Status``, or text."""
    if _is(answer, _PROTOBUF):
        from google.protobuf.message import DecodeError

        try:
            return shortened(otlp_proto.message("RpcStatus").FromString(body).message)
        except DecodeError:
            return ""
    return shortened(body.decode(errors="replace"))
