"""Bodies and addresses of a user who is logged in: each is refused with a reason, none is an error of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(5, func_only=True)]
VALIDATE = "/inferbench/api/submissions/validate"
GOOD: dict[str, Any] = {
    "name": "q",
    "model": {"kind": "zoo", "name": "digits"},
    "load": {"arrivals": {"kind": "poisson", "rate_rps": 10}},
}
HUGE = "1" + "0" * 400


@pytest.fixture(scope="module")
def http() -> Iterator[TestClient]:
    """The application for a user who may do all, with the limits that a request meets before it."""
    from airflow.api_fastapi.core_api.security import get_user

    from inferbench_tasks.provider.api.access import READER, SUBMITTER, store
    from inferbench_tasks.provider.api.app import app
    from inferbench_tasks.provider.api.limits import BodyLimit

    outer = FastAPI()
    outer.mount("/inferbench", app)
    outer.add_middleware(BodyLimit)
    nobody: Any = lambda: None  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERBENCH_SUBMISSIONS_DIR", str(Path(__file__).parents[3] / "configs" / "submissions"))
        for needed, instead in (
            (READER.dependency, nobody),
            (SUBMITTER.dependency, nobody),
            (get_user, lambda: SimpleNamespace(get_name=lambda: "ann")),
            (store, nobody),
        ):
            patch.setitem(app.dependency_overrides, needed, instead)
        # What the application does not answer itself is an error of this test.
        with TestClient(outer) as client:
            yield client


def lists(depth: int) -> str:
    return "[" * depth + "]" * depth


def mappings(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def submission(**changes: Any) -> str:
    return json.dumps({"submission": {**GOOD, **changes}})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(f'{{"submission":{mappings(33)}}}', "deeper than 32", id="33 levels"),
        pytest.param(f'{{"submission":{mappings(500)}}}', "deeper than 32", id="500 levels"),
        pytest.param(
            f'{{"submission":{{"name":{lists(900)}}}}}', "deeper than 32", id="900 levels in a field"
        ),
        pytest.param(f'{{"name":{lists(500)}}}', "deeper than 32", id="500 levels as a name"),
        pytest.param(f'{{"user":{lists(500)},"name":"x"}}', "deeper than 32", id="500 levels as a user"),
        pytest.param(
            f'{{"name":"x","slo":{{"p99_ms":{lists(500)}}}}}', "deeper than 32", id="500 as a bound"
        ),
        pytest.param(f'{{"other":{lists(500)}}}', "deeper than 32", id="500 levels in an unknown field"),
        pytest.param(lists(100_000), "parsing the body", id="100,000 levels"),
        pytest.param(lists(500), "valid dictionary", id="500 levels and no mapping"),
        pytest.param('{"name":"a\\u0000b"}', "U+0000", id="NUL in a name"),
        pytest.param(submission(requests={"kind": "files", "path": "a\0b"}), "U+0000", id="NUL in a path"),
        pytest.param(submission(**{"a\0b": 1}), "U+0000", id="NUL in a key"),
        pytest.param('{"name":"\\ud800"}', "U+D800", id="half a character as a name"),
        pytest.param('{"name":"quickstart","user":"\\udfff"}', "U+DFFF", id="half a character as a user"),
        pytest.param('{"\\ud800":1}', "U+D800", id="half a character as a field"),
        pytest.param('{"submission":{"\\ud800":1}}', "U+D800", id="half a character as a key"),
        pytest.param('{"submission":"name: \\ud800"}', "U+D800", id="half a character in YAML"),
        pytest.param(submission(description="a\u202eb"), "U+202E", id="reordered text"),
        pytest.param(f'{{"name":"quickstart","priority":{HUGE}}}', "300 digits", id="a huge priority"),
        pytest.param(f'{{"name":{HUGE}}}', "300 digits", id="a huge name"),
        pytest.param(f'{{"name":"quickstart","slo":{{"p99_ms":{HUGE}}}}}', "300 digits", id="a huge bound"),
        pytest.param(submission(priority=int(HUGE)), "300 digits", id="a huge number in a submission"),
        pytest.param('{"priority":1' + "0" * 5000 + "}", "parsing the body", id="5,000 digits"),
        pytest.param('{"name":NaN}', "nan is no number", id="NaN as a name"),
        pytest.param('{"priority":Infinity}', "inf is no number", id="an infinite priority"),
        pytest.param(submission(priority=float("-inf")), "-inf is no number", id="infinity in a submission"),
        pytest.param(submission(tags=["a"] * 60_000), "50,000 values", id="60,000 tags"),
        pytest.param(submission(files={str(i): 1 for i in range(60_000)}), "50,000 values", id="60,000 keys"),
        pytest.param(submission(description="a" * 1_000_001), "1,000,000 bytes", id="a long text"),
        pytest.param(submission(**{"a" * 1_000_001: 1}), "1,000,000 bytes", id="a long key"),
        pytest.param('{"submission":"' + "a" * 1_000_001 + '"}', "1,000,000 bytes", id="a long YAML"),
        pytest.param(b"\xff\xfe{", "parsing the body", id="no UTF-8"),
        pytest.param("", "required", id="nothing"),
        pytest.param("null", "required", id="null"),
        pytest.param('"text"', "valid dictionary", id="a text"),
        pytest.param("{", "JSON decode error", id="half a body"),
    ],
)
def test_a_hostile_body_is_refused_with_its_reason(http: TestClient, body: str | bytes, message: str) -> None:
    """4xx that names the limit; the answer is JSON, whatever the body was."""
    answer = http.post(VALIDATE, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert message in str(answer.json()["detail"])
    assert len(answer.content) < 20_000


@pytest.mark.parametrize(
    "path", ["/api/submissions", "/api/submissions/validate", "/api/runs", "/leaderboard", "/x"]
)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_long_body_is_refused_on_every_route(http: TestClient, path: str, chunked: bool) -> None:
    """413, with a length and without one."""
    body = b"x" * 2_000_001
    parts = (body[at : at + 65_536] for at in range(0, len(body), 65_536))
    answer = http.post(f"/inferbench{path}", content=parts if chunked else body)
    assert answer.status_code == 413
    assert "2,000,000 bytes" in answer.json()["detail"]


@pytest.mark.parametrize(
    "path",
    ["/api/runs/%00", "/run/a%00b", "/report/%00", "/static/%00", "/api/submissions/%00", "/api/runs?q=run=%00*",
     "/leaderboard?model=%00", "/api/runs?limit=1" + "0" * 5000, "/api/runs?format=%ED%A0%80",
     "/api/runs?offset=-1", "/api/runs?q=" + "a" * 5000, "/api/runs?sort=" + "-" * 500],
)  # fmt: skip
def test_a_hostile_address_is_refused(http: TestClient, path: str) -> None:
    """422 with JSON; nothing is opened or asked by such a name."""
    answer = http.get(f"/inferbench{path}")
    assert answer.status_code == 422
    assert answer.json()["detail"]


def test_a_good_submission_passes_the_same_way(http: TestClient) -> None:
    """The limits let through what they are for."""
    answer = http.post(VALIDATE, content=submission(), headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["jobs"] == 1
