"""Routes of the web port, without a login and with a token that nobody signed."""

from __future__ import annotations

import base64
import json

from tests.stranger.ending import Ending
from tests.stranger.wire import request

FORGED = " with a forged token"
DAG_RUNS = "/api/v2/dags/submit/dagRuns"
TASK = "/execution/task-instances/00000000-0000-7000-8000-000000000000"
#: Method and path of questions to a web server; some with a body.
HTTP: tuple[tuple[str, str], ...] = (
    *(("GET", path) for path in (
        "/", "/auth/login", "/api/v2/monitor/health", "/api/v2/version", "/execution/health", "/auth/token",
        "/auth/token/login", "/api/v2/dags", "/api/v2/connections", "/api/v2/variables", "/api/v2/pools",
        "/api/v2/config",
        "/api/v2/importErrors", "/api/v2/eventLogs", "/api/v2/plugins", DAG_RUNS,
        "/api/v2/dags/~/dagRuns/~/taskInstances",
        "/ui/config", "/ui/dags", "/ui/auth/menus", "/ui/dashboard/historical_metrics_data",
        "/inferbench/api/runs", "/inferbench/api/openapi.json", "/inferbench/leaderboard", "/inferbench/cluster",
        "/inferbench/report/x", "/inferbench/static/..%2f..%2fpages.py",
        "/log/dag_id=x/run_id=y/task_id=z/attempt=1.log",
        "/log/../passwords.json", "/execution/connections/x", "/execution/variables/x",
        "/execution/xcoms/submit/x/validate/k",
        "/execution/dag-runs/count?dag_id=submit", "/metrics", "/debug", "/flower", "/static/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd",
    )),
    *(("POST", path) for path in (
        "/auth/token", DAG_RUNS, "/inferbench/api/submissions", "/inferbench/api/submissions/validate",
        "/api/v2/connections", "/api/v2/variables", "/api/v2/pools", "/execution/xcoms/submit/x/validate/k",
        "/v2/repository/models/model/load", "/models?url=file:///tmp/x.mar",
    )),
    ("PATCH", "/api/v2/dags/submit"), ("DELETE", "/api/v2/dags/submit"), ("PATCH", "/api/v2/pools/default_pool"),
    ("PATCH", f"{TASK}/run"), ("PATCH", f"{TASK}/state"), ("PUT", f"{TASK}/heartbeat"), ("PUT",
    "/execution/variables/x"),
)  # fmt: skip


def web(port: int) -> list[Ending]:
    front = request(port, "GET", "/")[1]
    endings = []
    tokens = ["", f"Bearer {_unsigned_token()}"]
    for method, path in HTTP:
        for token in tokens:
            status, body = request(port, method, path, token)
            # Airflow answers any other path by the page that asks for a login.
            word = "page" if status == 200 and body == front else str(status)
            where = f"{port} {method} {path}{FORGED if token else ''}"
            endings.append({"what": "http", "where": where, "ending": word, "answer": repr(body[:100])})
    return endings


def _unsigned_token() -> str:
    """A token that says it needs no signature."""
    parts = (
        {"alg": "none", "typ": "JWT"},
        {"sub": "admin", "role": "admin", "exp": 2**33, "iat": 1, "nbf": 1},
    )
    return (
        ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts) + "."
    )
