"""A server that takes a secret with each request answers nobody else, on any route."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from inferbench_tasks.clients.kserve_http import encode_request
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.servers.http import InferenceApp

SECRET = "abc-DEF_123"
ROUTES = (
    "/v2",
    "/v2/health/live",
    "/v2/health/ready",
    "/v2/models/m",
    "/v2/models/m/config",
    "/metrics",
    "/none",
)


def client(secret: str) -> TestClient:
    regions = SimpleNamespace(extensions=())
    model: Any = SimpleNamespace(name="m", version="1", ready=True, recorder=None, regions=regions)
    return TestClient(InferenceApp(model, "0", secret))


@pytest.mark.parametrize(
    "header", [None, "Bearer", "Bearer abc", f"bearer {SECRET}", f"Basic {SECRET}", f"Bearer {SECRET}x"]
)
def test_who_does_not_know_it_is_told_nothing(header: str | None) -> None:
    """Not even which routes there are; also where inference takes the short way."""
    asked = client(SECRET)
    headers = {} if header is None else {"authorization": header}
    for route in ROUTES:
        answer = asked.get(route, headers=headers)
        assert (answer.status_code, answer.content) == (401, b"")
    answer = asked.post("/v2/models/m/infer", headers=headers, content=b"{}")
    assert (answer.status_code, answer.content) == (401, b"")


def test_who_knows_it_is_answered() -> None:
    """As by a server that needs none."""
    headers = {"authorization": f"Bearer {SECRET}"}
    assert client(SECRET).get("/v2/health/ready", headers=headers).status_code == 200
    assert client(SECRET).get("/none", headers=headers).status_code == 404
    assert client("").get("/v2/health/ready").status_code == 200


def test_the_client_sends_it_and_nobody_writes_it_down() -> None:
    """In the request; an endpoint without one is stored and shown as ever."""
    plain = Endpoint(protocol="http", host="h", port=1, model_name="m")
    known = plain.model_copy(update={"secret": SECRET})
    assert f"\r\nAuthorization: Bearer {SECRET}\r\n".encode() in encode_request(known, {})
    assert b"Authorization" not in encode_request(plain, {})
    assert "secret" not in plain.model_dump() and SECRET not in repr(known)
    assert Endpoint.model_validate(known.model_dump()).secret == SECRET
