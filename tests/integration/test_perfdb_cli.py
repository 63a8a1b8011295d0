"""``inferbench perfdb`` and ``inferbench results``, as a user calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inferbench_tasks.cli.main import main
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from tests.unit.perfdb.builders import latency, result

pytestmark = pytest.mark.integration


class Shown(NamedTuple):
    """What a command printed."""

    stdout: str
    stderr: str


class Command(Protocol):
    """``inferbench ARGUMENTS`` with that PerfDB's URI; its exit code is checked."""

    def __call__(self, *arguments: str, code: int = 0, uri: str | None = None) -> Shown: ...


@pytest.fixture
def inferbench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line, called in this process as its entry point does."""

    def call(*arguments: str, code: int = 0, uri: str | None = None) -> Shown:
        if uri:
            monkeypatch.setenv("INFERBENCH_PERFDB_URI", uri)
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        shown = Shown(*capsys.readouterr())
        assert ended.value.code == code, shown.stderr
        return shown

    return call


def in_a_process(*arguments: str) -> str:
    """What the installed command prints on stdout."""
    return subprocess.run(
        [sys.executable, "-m", "inferbench_tasks.cli.main", *arguments],
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_the_embedded_server(inferbench: Command, data_dir: Path) -> None:
    """start, status, uri and stop; status and uri start nothing and say so by their exit code."""
    assert json.loads(inferbench("perfdb", "status", "-o", "json", code=1).stdout)["running"] is False
    assert "is not running" in inferbench("perfdb", "uri", code=1).stderr
    try:
        uri = in_a_process("perfdb", "start")
        assert inferbench("perfdb", "uri").stdout == uri
        shown = json.loads(inferbench("perfdb", "status", "-o", "json").stdout)
        assert (shown["running"], shown["server"], shown["results"]) == (True, "embedded", 0)
        assert shown["uri"] == uri.strip()
        assert "Stopped" in inferbench("perfdb", "stop").stderr
        assert "was not running" in inferbench("perfdb", "stop").stderr
    finally:
        embedded.stop(data_dir)


def test_an_external_server_is_left_alone(inferbench: Command, perfdb_uri: str, data_dir: Path) -> None:
    """With a URI set there is nothing to start or stop, and its password is shown only on request."""
    secret = "mongodb://me:sEcret@127.0.0.1:1/"
    for action in ("start", "stop"):
        assert "INFERBENCH_PERFDB_URI is set" in inferbench("perfdb", action, code=2, uri=secret).stderr
    assert inferbench("perfdb", "uri", uri=secret).stdout == "mongodb://***@127.0.0.1:1/\n"
    assert "sEcret" in inferbench("perfdb", "uri", "--show-password", uri=secret).stdout
    shown = inferbench("perfdb", "status", "-o", "json", uri=perfdb_uri).stdout
    assert json.loads(shown)["server"] == "external"
    assert not (data_dir / "perfdb").exists()


def test_results(inferbench: Command, perfdb: PerfDB, perfdb_uri: str, tmp_path: Path) -> None:
    """list, show, stages, compare, export and delete, on stdout for programs."""
    table = pa.table({"done_ns": [1, 2, 3]})
    pq.write_table(table, tmp_path / "s.parquet")
    perfdb.save_result(latency("a-run", 10.0), tmp_path / "s.parquet")
    perfdb.save_result(latency("b-run", 25.0, verdict="invalid: late"))
    perfdb.start_run("c-run", "inv", "job", {"name": "s"})
    perfdb.stage_started("c-run", "serve")
    perfdb.stage_failed("c-run", "serve", error="port taken")

    listed = json.loads(inferbench("results", "list", "-o", "json", uri=perfdb_uri).stdout)
    assert {row["run"]: row["verdict"] for row in listed} == {
        "a-run": "valid", "b-run": "invalid: late", "c-run": "failed: serve, port taken",
    }  # fmt: skip
    few = inferbench(
        "results", "list", "verdict=valid", "p99<20", "--sort", "-p99", "-o", "json", uri=perfdb_uri
    )
    assert [row["p99_ms"] for row in json.loads(few.stdout)] == [10.0]
    assert len(inferbench("results", "list", "-n", "1", uri=perfdb_uri).stdout.splitlines()) == 3

    shown = json.loads(inferbench("results", "show", "a", "-o", "json", uri=perfdb_uri).stdout)
    assert shown["summary"]["e2e_latency_ms"]["p99"] == 10.0
    failed = inferbench("results", "show", "c", "-o", "json", uri=perfdb_uri)
    assert json.loads(failed.stdout)["stages"][0]["error"] == "port taken"
    assert "has no result" in failed.stderr
    assert "port taken" in inferbench("results", "stages", "c-run", uri=perfdb_uri).stdout

    compared = inferbench("results", "compare", "a", "b", "-o", "json", uri=perfdb_uri)
    assert {"field": "p99_ms", "a-run": 10.0, "b-run": 25.0, "b-run ratio": 2.5} in json.loads(
        compared.stdout
    )
    assert "b-run is invalid: late" in compared.stderr

    inferbench("results", "export", str(tmp_path / "x.parquet"), "run=a-run", "--samples", uri=perfdb_uri)
    assert pq.read_table(tmp_path / "x.parquet").equals(table)
    exported = inferbench("results", "export", str(tmp_path / "x.csv"), uri=perfdb_uri)
    assert exported.stdout == ""
    assert "2 result(s)" in exported.stderr

    inferbench("results", "delete", "a-run", code=2, uri=perfdb_uri)
    inferbench("results", "delete", "a-run", "--yes", uri=perfdb_uri)
    assert perfdb.count_results() == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "modle=x"], "Did you mean 'model'"),
        (["list", "--sort", "speed"], "Unknown field 'speed'"),
        (["show", "nobody"], "no run 'nobody'"),
        (["compare", "one"], "at least two runs"),
        (["export", "x.xlsx"], "allowed: .csv, .parquet, .json"),
        (["export", "x.csv", "--samples"], "give run=ID"),
    ],
)
def test_wrong_input(inferbench: Command, perfdb_uri: str, arguments: list[str], message: str) -> None:
    """The user's errors end with exit code 2 and what is allowed; nothing on stdout."""
    done = inferbench("results", *arguments, code=2, uri=perfdb_uri)
    assert message in done.stderr
    assert done.stdout == ""


def test_hostile_names_do_not_reach_the_terminal(
    inferbench: Command, perfdb: PerfDB, perfdb_uri: str
) -> None:
    """What was stored by someone else can't steer the terminal of who lists it."""
    perfdb.save_result(result(model={"name": "\x1b[2Jx"}, submission={"name": "s", "user": "\x1b]0;x\x07"}))
    for output in ("table", "json", "yaml"):
        shown = inferbench("results", "list", "-o", output, uri=perfdb_uri).stdout
        assert "\x1b" not in shown
