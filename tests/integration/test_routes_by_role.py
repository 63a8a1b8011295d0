"""Every route and method of Airflow's API and of InferBench's, asked by each role: who may do what."""

from __future__ import annotations

import pytest

from tests.airflow_site import answers_of

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
Table = dict[str, dict[str, int]]

#: Without a login.
OPEN = {
    "GET /api/v2/monitor/health",
    "GET /api/v2/version",
    "GET /api/v2/auth/login",
    "GET /api/v2/auth/logout",
}
#: For operators and admins only, also to look at.
HIDDEN = {
    "GET /api/v2/connections", "GET /api/v2/connections/{connection_id}", "GET /api/v2/variables",
    "GET /api/v2/variables/{variable_key}", "GET /api/v2/config",
    "GET /api/v2/config/section/{section}/option/{option}",
}  # fmt: skip
#: Routes with which a viewer changes nothing of others': they read, check, or mark the viewer's own favourites; or that
#: look for a thing, or at the body, before they look at who asks.
HARMLESS = {
    "POST /api/v2/dags/{dag_id}/dagRuns/list",
    "POST /api/v2/dags/{dag_id}/dagRuns/{dag_run_id}/taskInstances/list",
    "POST /api/v2/dags/{dag_id}/favorite",
    "POST /api/v2/dags/{dag_id}/unfavorite",
    "POST /inferbench/api/bricks/predict",
    "POST /inferbench/api/submissions/plan",
    "POST /inferbench/api/submissions/validate",
}
NOT_THERE = {
    "PUT /api/v2/backfills/{backfill_id}/pause": 404,
    "PUT /api/v2/backfills/{backfill_id}/unpause": 404,
    "PUT /api/v2/backfills/{backfill_id}/cancel": 404,
    "PUT /api/v2/parseDagFile/{file_token}": 404,
    "PATCH /api/v2/dags/{dag_id}/dagRuns": 422,
    "POST /api/v2/dags/{dag_id}/clearDagRuns": 422,
}
#: What a submitter may and a viewer may not; 422: it passed, and the body is no submission.
SUBMITS = {
    "POST /api/v2/dags/{dag_id}/dagRuns",
    "POST /inferbench/api/submissions",
    "POST /inferbench/api/submissions/{run}/cancel",
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Role -> route -> status, of a metadata database and a PerfDB in which there is nothing."""
    answers: Table = answers_of("tests.integration.routes_by_role", tmp_path_factory)
    assert min(len(routes) for routes in answers.values()) > 130
    return answers


def test_without_a_login_nothing_answers(table: Table) -> None:
    """401 on every route but the version, the health and the way to the login."""
    assert {route for route, status in table["nobody"].items() if status != 401} == OPEN


def test_a_viewer_reads_and_changes_nothing(table: Table) -> None:
    """403 on every route that changes something, and on connections, variables and settings."""
    for route, status in table["viewer"].items():
        if route in HIDDEN or (
            not route.startswith("GET") and route not in HARMLESS and route not in NOT_THERE
        ):
            assert status == 403, (route, status)
        elif route in NOT_THERE:
            assert status == NOT_THERE[route], (route, status)
        else:
            assert status not in (401, 403), (route, status)


def test_a_submitter_submits_and_is_a_viewer_else(table: Table) -> None:
    """Three routes differ: runs of the DAG submit, InferBench's own, and the end of one's own submission."""
    differ = {route for route, status in table["submitter"].items() if status != table["viewer"][route]}
    assert differ == SUBMITS
    assert {table["submitter"][route] for route in SUBMITS} == {422}


def test_an_admin_may_do_all(table: Table) -> None:
    """Nothing is refused, but what the installation switches off for all."""
    refused = {route for route, status in table["admin"].items() if status in (401, 403)}
    assert refused <= {"GET /api/v2/config", "GET /api/v2/config/section/{section}/option/{option}",
                       "POST /api/v2/connections/test", "POST /api/v2/connections/enqueue-test"}  # fmt: skip


def test_no_answer_is_an_error_of_the_server(table: Table) -> None:
    """A thing that is not there and a body that is wrong are 4xx, for every role."""
    assert [(role, r, s) for role, routes in table.items() for r, s in routes.items() if s >= 500] == []
