"""Asks Airflow's API and InferBench's as users of FAB's auth manager: writes {step: {status, body}}.

Run with Airflow's settings in the environment and its metadata database made. The users are made by the commands of
``docs/how-to/logins-of-a-team.md``.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from tests.integration.logins_over_http import SUBMISSION, keep_dags, states, trigger

ROLES = {"ann": "Viewer", "bob": "Viewer", "vic": "Viewer", "root": "Admin"}
SUBMITTERS = ("ann", "bob")


def main() -> None:
    keep_dags("submit")
    make_users()
    site = Site()
    log_in(site)
    ask_airflow(site)
    submit_and_end(site)
    Path(sys.argv[1]).write_text(json.dumps(site.answers))


def make_users() -> None:
    airflow("roles", "create", "Submitter")
    for login, role in ROLES.items():
        airflow(
            "users", "create", "--username", login, "--role", role, "--password", f"password of {login}",
            "--firstname", login, "--lastname", login, "--email", f"{login}@example.org",
        )  # fmt: skip
    for login in SUBMITTERS:
        airflow("users", "add-role", "--username", login, "--role", "Submitter")


def airflow(*arguments: str) -> None:
    """A command of Airflow's, without a new process for each."""
    from airflow.cli.cli_parser import get_parser

    args = get_parser().parse_args(arguments)
    args.func(args)


class Site:
    """Airflow's API, its logins and InferBench's API, asked by a user with the token of its password."""

    def __init__(self) -> None:
        from airflow.api_fastapi.app import create_app
        from fastapi.testclient import TestClient

        from inferbench_tasks.provider.api.app import app as ours

        theirs = create_app(apps="core")
        ours.state = theirs.state  # as where Airflow mounts it
        url = "http://127.0.0.1:8080"
        self.airflow = TestClient(theirs, base_url=url, raise_server_exceptions=False)
        self.ours = TestClient(ours, base_url=url, raise_server_exceptions=False)
        self.tokens: dict[str, str] = {}
        self.answers: dict[str, Any] = {}

    def log_in(self, step: str, login: str, password: str) -> None:
        answer = self.airflow.post("/auth/token", json={"username": login, "password": password})
        self.answers[step] = {"status": answer.status_code, "retry": answer.headers.get("retry-after")}
        if answer.status_code == 201:
            self.tokens[login] = answer.json()["access_token"]

    def log_in_by_page(self, step: str, login: str, password: str) -> None:
        page = self.airflow.get("/auth/login/")
        token = re.search(r'name="csrf_token"[^>]*value="([^"]+)"', page.text)
        form = {"username": login, "password": password, "csrf_token": token[1] if token else ""}
        answer = self.airflow.post("/auth/login/", data=form, follow_redirects=False)
        self.airflow.cookies.clear()
        self.answers[step] = {"status": answer.status_code, "to": answer.headers.get("location")}

    def ask(
        self, step: str, login: str | None, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """As a user, or as nobody; Airflow's API below ``/api/v2``, else InferBench's."""
        headers = {"Authorization": f"Bearer {self.tokens[login]}"} if login else {}
        client = self.airflow if path.startswith("/api/v2") else self.ours
        answer = client.request(method, path, headers=headers, json=body)
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        self.answers[step] = {"status": answer.status_code, "body": answer.json() if is_json else None}
        return self.answers[step]["body"] if is_json else {}


def log_in(site: Site) -> None:
    for login in ROLES:
        site.log_in(f"log in {login}", login, f"password of {login}")
    for number in range(11):
        site.log_in(f"guess {number}", "vic", f"guess {number}")
    site.log_in_by_page("page ann", "ann", "password of ann")
    for number in range(6):
        site.log_in_by_page(f"page guess {number}", "vic", f"guess {number}")
    site.log_in("log in ann while others guess", "ann", "password of ann")


def ask_airflow(site: Site) -> None:
    for login in ROLES:
        site.ask(f"look {login}", login, "GET", "/api/leaderboard")
        site.ask(f"connections {login}", login, "GET", "/api/v2/connections")
        site.ask(f"pause {login}", login, "PATCH", "/api/v2/dags/submit", {"is_paused": True})
    site.ask("pause undone", "root", "PATCH", "/api/v2/dags/submit", {"is_paused": False})
    site.ask("look nobody", None, "GET", "/api/leaderboard")


def submit_and_end(site: Site) -> None:
    runs = {}
    for login in ROLES:
        os.environ["INFERBENCH_OPERATORS"] = "root, carl"
        body = site.ask(f"submit {login}", login, "POST", "/api/submissions", {"submission": SUBMISSION})
        if "run" in body:
            keep_dags(body["dag"])
            trigger(body["dag"], body["run"], login)
            runs[login] = (body["dag"], body["run"])
    dag, run = runs["ann"]
    run_path = f"/api/v2/dags/{dag}/dagRuns"
    site.ask("another DAG ann", "ann", "POST", run_path, {"logical_date": None})
    for login in ("vic", "bob", "ann"):
        site.ask(f"end {login}", login, "POST", f"/api/submissions/{run}/cancel", {})
        site.answers[f"end {login}"]["states"] = states(dag, run)
    site.ask("end bob's as root", "root", "POST", f"/api/submissions/{runs['bob'][1]}/cancel", {})


if __name__ == "__main__":
    main()
