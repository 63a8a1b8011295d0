"""``inferbench trace open``: where a trace is looked at, with a real server and over HTTP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from inferbench_tasks import extras, settings
from inferbench_tasks.cli.trace import app
from inferbench_tasks.errors import InputError, MissingExtraError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.system import processes
from tests.e2e import made_traces

pytestmark = pytest.mark.integration
_PATIENCE_S = 60.0


@pytest.fixture
def traced(perfdb: PerfDB, perfdb_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PerfDB with the traces of ``made_traces``, and a data directory of its own."""
    made_traces.seed(perfdb, tmp_path)
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    monkeypatch.setenv(settings.DATA_DIR, str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def opened(traced: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address that the command says, while it serves."""
    command = [
        sys.executable,
        "-m",
        "inferbench_tasks.cli.main",
        "trace",
        "open",
        "traced-quick",
        "--no-browser",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
        process.kill()


@pytest.mark.airflow
@pytest.mark.skipif(
    bool(extras.missing("trace-ui")), reason="Perfetto's page is not installed (extra trace-ui)"
)
def test_without_a_system_perfetto_is_served_with_the_trace_alone(
    opened: tuple[str, subprocess.Popen[str]],
) -> None:
    """Page, Perfetto's own files and every span are there below the secret; without it, and of PerfDB, nothing is;
    Ctrl-C ends it as a shell expects of it (130), without a word more, and nothing is served then.
    """
    address, process = opened
    assert address.startswith("http://127.0.0.1:")
    with httpx.Client(base_url=address, timeout=_PATIENCE_S) as http:
        assert f'data-spans="{made_traces.SPANS}"' in http.get("").text
        events = http.get("trace.json").json()["traceEvents"]
        assert sum(event["ph"] == "X" for event in events) == made_traces.SPANS
        assert "perfetto" in http.get("perfetto/index.html").text.lower()
        assert "PING" in http.get("static/perfetto.js").text
        origin = address[: address.index("/", len("http://"))]
        for path in (
            "/",
            "/trace.json",
            "/perfetto/index.html",
            f"/{'x' * 32}/trace.json",
            "/openapi.json",
            "/docs",
        ):
            assert http.get(origin + path).status_code == 404, path
        assert http.get("perfetto/..%2f..%2fviewer.py").status_code == 404
    process.send_signal(signal.SIGINT)
    rest, said = process.communicate(timeout=_PATIENCE_S)
    assert process.returncode == 130, said
    assert rest == "" and said == f"{made_traces.SPANS:,} spans; Ctrl-C ends it.\n"
    with pytest.raises(httpx.ConnectError):
        httpx.get(address)


def test_where_the_system_is_up_its_page_is_opened(traced: Path) -> None:
    """The address of that trace's page, and nothing is served; of what there is not, it is said."""
    home = traced / "system"
    home.mkdir(parents=True)
    part = processes.start("api-server", ["sleep", "60"], dict(os.environ), home / "logs")
    try:
        processes.save(home / "processes.json", [part])
        (home / "url").write_text("http://127.0.0.1:4711")
        ended = CliRunner().invoke(app, ["open", "traced-q", "--no-browser"])
        assert ended.exit_code == 0, ended.output
        assert ended.stdout == "http://127.0.0.1:4711/inferbench/trace/traced-quick\n"
        missing = CliRunner().invoke(app, ["open", "traced-failed", "--no-browser"])
        assert isinstance(missing.exception, InputError) and "the server left no trace" in str(
            missing.exception
        )
    finally:
        processes.end([part])


def test_the_optional_part_that_is_missing_is_named(traced: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that brings it."""
    monkeypatch.setenv("INFERBENCH_NO_INSTALL", "1")
    monkeypatch.setattr(extras, "missing", lambda extra: ["viztracer"])
    ended = CliRunner().invoke(app, ["open", "traced-quick", "--no-browser"])
    assert isinstance(ended.exception, MissingExtraError)
    assert "pip install 'inferbench[trace-ui]'" in str(ended.exception)
