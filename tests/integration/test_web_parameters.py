"""What is asked for beside what a route declares is refused, on pages and over REST; what links ask for is declared."""

from __future__ import annotations

import re

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from inferbench_tasks.perfdb.store import PerfDB

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
#: Addresses of files may have a version in them.
FILES = {"/static/{name}", "/perfetto/{path:path}"}


def routes() -> list[APIRoute]:
    from inferbench_tasks.provider.api.app import app

    return [route for route in app.routes if isinstance(route, APIRoute)]


def test_every_route_refuses_what_it_does_not_declare(perfdb: PerfDB, http: TestClient) -> None:
    """Each of them, by its own path and method, before it does anything; only files take what comes."""
    asked = 0
    for route in routes():
        if route.path in FILES:
            continue
        path = re.sub(r"\{[^}]+\}", "x", route.path)
        for method in route.methods:
            answer = http.request(
                method, f"/inferbench{path}", params={"whatever": "1"}, follow_redirects=False
            )
            assert answer.status_code == 422, (method, path, answer.text[:200])
            (problem,) = answer.json()["detail"]
            assert problem["loc"] == ["query", "whatever"], (method, path)
            assert problem["msg"].startswith("there is no such parameter here"), (method, path)
            asked += 1
    assert asked > 80
    assert http.get("/inferbench/static/inferbench.css?v=1").status_code == 200


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("cluster?hour=1", "there is no such parameter here; did you mean 'hours'? allowed: hours"),
        (
            "trainings?modell=a",
            "; did you mean 'model'? allowed: sort, offset, ticked, submission, benchmark, model, data, device",
        ),
        ("traces?orign=run", "; did you mean 'origin'? allowed: "),
        ("trace/x?zoom=2", "allowed: request, levels, alone, part, name, level"),
        ("model?model=digits", "allowed: name"),
        ("api/runs?verdict=valid", "allowed: q, sort, limit, offset, format"),
        ("api/cluster/timeline?hour=1", "; did you mean 'hours'?"),
        ("api/trainings?modell=a", "; did you mean 'model'?"),
        ("api/manifests/a:b@1?format=csv", "there is no such parameter here: it takes none"),
    ],
)
def test_the_refusal_names_what_is_allowed(perfdb: PerfDB, http: TestClient, path: str, words: str) -> None:
    """With what was probably meant."""
    answer = http.get(f"/inferbench/{path}")
    assert answer.status_code == 422 and words in answer.json()["detail"][0]["msg"], answer.text


@pytest.mark.parametrize(
    "path",
    [
        "leaderboard?mark=a-1&ticked=r1&ticked=r2&x=p99_ms&off=cpu",
        "runs?q=submission%3Dx&ticked=r1",
        "trainings?ticked=r1",
        "traces?ticked=r1",
        "evaluations?ticked=r1",
        "new?from=quickstart",
    ],
)
def test_what_scripts_and_links_of_airflow_ask_for_is_known(
    perfdb: PerfDB, http: TestClient, path: str
) -> None:
    """The page comes, with what its own scripts keep in its address, and what Airflow's links lead to."""
    assert http.get(f"/inferbench/{path}").status_code == 200
