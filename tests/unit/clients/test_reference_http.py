"""The client that is there to check the lean one against."""

from __future__ import annotations

from types import SimpleNamespace

from inferbench_tasks.clients.base import Payload
from inferbench_tasks.clients.reference_http import ReferenceHttpClient


def test_each_payload_is_sent_as_it_is() -> None:
    """Also those that are made under load and freed again, so that a later one has the identity of an earlier one."""
    client = object.__new__(ReferenceHttpClient)
    client.settings = SimpleNamespace(endpoint=SimpleNamespace(url="127.0.0.1:1"))  # type: ignore[assignment]
    for number in range(100):
        body = f"body-{number}".encode()
        url, _, sent = client._request(Payload(b"POST /v2/x HTTP/1.1\r\nHost: a\r\n\r\n" + body, number, 1))
        assert (url, sent) == ("http://127.0.0.1:1/v2/x", body)
