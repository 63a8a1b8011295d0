"""Writes what every route of Airflow's API and of InferBench's answers to each role: {role: {"METHOD path": status}}.

Run with Airflow's settings in the environment and its metadata database made; what is asked for does not exist, so
that nothing happens where the login lets it pass.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROLES = ("nobody", "viewer", "submitter", "admin")
#: What stands for a part of a path.
CREATE = [("connections", {"connection_id": "x", "conn_type": "http"}), ("pools", {"name": "x", "slots": 1})]
CREATE += [("variables", {"key": "x", "value": "x"})]
#: Routes that look at what is in the body before they look at who asks.
BODIES: dict[str, Any] = {
    f"PATCH /api/v2/{name}": {"actions": [{"action": "create", "entities": [entity]}]}
    for name, entity in CREATE
}
BODIES["POST /api/v2/connections/enqueue-test"] = CREATE[0][1]
VALUES = {"dag_id": "resnet", "dag_run_id": "x", "run_id": "x", "task_id": "t", "map_index": "0"}


def main() -> None:
    from airflow.api_fastapi.app import create_app, get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    from inferbench_tasks.provider.api.app import app as ours

    theirs = create_app(apps="core")
    ours.state = theirs.state  # as where Airflow mounts it
    table: dict[str, dict[str, int]] = {role: {} for role in ROLES}
    options: dict[str, Any] = {
        "base_url": "http://127.0.0.1:8080",
        "raise_server_exceptions": False,
        "follow_redirects": False,
    }
    with TestClient(theirs, **options) as client:
        own = TestClient(ours, **options)
        for site, prefix, paths in (
            (client, "", theirs.openapi()["paths"]),
            (own, "/inferbench", ours.openapi()["paths"]),
        ):
            for path, method in _calls(paths):
                for role in ROLES:
                    headers = {}
                    if role != "nobody":  # a token of its own for each: one of the routes is the logout
                        user = SimpleAuthManagerUser(username=role, role=role)
                        headers["Authorization"] = f"Bearer {get_auth_manager().generate_jwt(user)}"
                    body = BODIES.get(f"{method} {path}", {"x": {}})
                    answer = site.request(method, _filled(path), headers=headers, json=body)
                    table[role][f"{method} {prefix}{path}"] = answer.status_code
    Path(sys.argv[1]).write_text(json.dumps(table))


def _calls(paths: dict[str, Any]) -> list[tuple[str, str]]:
    methods = ("get", "post", "put", "patch", "delete")
    return [(path, method.upper()) for path, item in paths.items() for method in methods if method in item]


def _filled(path: str) -> str:
    for part in path.split("/"):
        if part.startswith("{"):
            name = part.strip("{}").partition(":")[0]
            value = "submit" if name == "dag_id" and path.endswith("/dagRuns") else VALUES.get(name, "1")
            path = path.replace(part, value)
    return path


if __name__ == "__main__":
    main()
