"""The servers of a local system and a deployment, as Airflow's command starts them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from inferbench_tasks.provider.api.limits import APPS

pytestmark = pytest.mark.airflow
SERVED = """
import asyncio, uvicorn
from uvicorn.importer import import_from_string
from inferbench_tasks.provider import web_server
calls = []
uvicorn.run = lambda *arguments, **options: calls.append((arguments, options))
web_server.bound(execution_only=True)
uvicorn.run("airflow.api_fastapi.main:app", port=1, workers=1)
((path,), options), = calls
assert options == {
    "port": 1, "workers": 1, "factory": True, "http": web_server.PROTOCOL, "ws": "none",
}, options
app = import_from_string(path)()

async def status(path, length="0"):
    answers = []
    async def send(message):
        answers.append(message)
    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}
    await app({
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": path,
        "raw_path": path.encode(), "root_path": "", "query_string": b"", "state": {},
        "headers": [(b"content-length", length.encode())],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1),
    }, receive, send)
    return answers[0]["status"]

async def main():
    assert await status("/execution/xcoms/d/r/t/k", "64000001") == 413
    assert await status("/x", "2000001") == 413
    assert await status("/execution/a\\0b") == 422
    for path in ("/api/v2/version", "/auth/token", "/inferbench/runs", "/"):
        assert await status(path) == 404, path

asyncio.run(main())
"""


def test_a_server_of_tasks_alone_refuses_what_the_public_one_refuses() -> None:
    """Started as Airflow's command starts it, it has the limits of a request, and no page, API or login."""
    environment = os.environ | {APPS: "execution", "AIRFLOW__API_AUTH__JWT_SECRET": "s" * 64}
    process = subprocess.run(
        [sys.executable, "-c", SERVED], capture_output=True, text=True, check=False, env=environment
    )
    assert process.returncode == 0, process.stderr[-2000:]
