"""The command line as its user runs it: a process, a data directory, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from typer.testing import CliRunner

from inferbench_tasks import settings
from inferbench_tasks.cli.main import app
from inferbench_tasks.perfdb import embedded, frames
from inferbench_tasks.perfdb.store import PerfDB
from tests import browser
from tests.databases import Databases
from tests.warm import warm

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

QUICK = """
name: quick
model: {kind: zoo, name: digits}
load:
  arrivals: {kind: poisson, rate_rps: 100}
  duration_s: 3
  warmup_s: 1
"""
#: The verdict of a run that nothing else is held against, where disturbances are only noted.
ONLY_NOTED = "disturbed: what else happened on the machine was only noted (INFERBENCH_INTERFERENCE=note)"
#: Far beyond what anything here takes; a hang must not take the whole suite with it.
PATIENCE_S = 150


@dataclass
class Cli:
    """``inferbench`` with a data directory of its own."""

    data_dir: Path
    folder: Path
    children: list[subprocess.Popen[str]] = field(default_factory=list)

    def env(self, **more: str) -> dict[str, str]:
        # The machine of a test suite is busy with other tests: that must not decide about a verdict here. A run that
        # nothing is held against is then ``ONLY_NOTED``, and ends well but on a build server.
        quiet = {
            "INFERBENCH_DATA_DIR": str(self.data_dir),
            "COLUMNS": "200",
            "INFERBENCH_INTERFERENCE": "note",
            "CI": "",
        }
        return {**os.environ, **quiet, **more}

    def start(self, *arguments: str, prefix: tuple[str, ...] = (), **env: str) -> subprocess.Popen[str]:
        """The command in the background, in a process group of its own, as a shell would start it."""
        child = subprocess.Popen(
            [*prefix, sys.executable, "-m", "inferbench_tasks.cli.main", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self.env(**env),
            start_new_session=True,
        )
        self.children.append(child)
        return child

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """The command to its end."""
        child = self.start(*arguments, prefix=(), **env)
        out, err = child.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(arguments, child.returncode, out, err)

    def told(self, *arguments: str) -> Any:
        """What the command prints as JSON. It runs in this process, for another takes seconds to import: where what
        it says is asked, and not how it ends.
        """
        done = CliRunner().invoke(app, [*arguments, "-o", "json"], env=self.env())
        assert done.exit_code == 0, f"{arguments}\n{done.output}{done.exception}"
        return json.loads(done.stdout)

    def run_valid(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command until its runs are valid; on a machine that others use too, a moment may be too noisy."""
        for _ in range(4):
            done = self.run(*arguments)
            if done.returncode != 1 or "invalid: " not in done.stdout:
                break
        assert done.returncode == 0, done.stderr + done.stdout
        return done

    def results(self) -> list[dict[str, Any]]:
        """The rows of `results list`, newest first, read as the command does without a process of their own."""
        with PerfDB.connect(None, self.data_dir) as db:
            return frames.rows(db, limit=50)

    def submission(self, text: str = QUICK, name: str = "quick.yaml") -> str:
        """A submission's file."""
        (self.folder / name).write_text(text)
        return name

    def events(self) -> list[dict[str, Any]]:
        """What the newest invocation has told so far."""
        files = sorted(self.data_dir.glob("invocations/*/events.jsonl"), key=lambda p: p.stat().st_mtime)
        if not files:
            return []
        return [json.loads(line) for line in files[-1].read_text().splitlines()]

    def wait_for(self, stage: str, event: str = "start") -> None:
        """Until a stage has started (or ended)."""
        deadline = time.monotonic() + PATIENCE_S
        while not any(e["stage"] == stage and e["event"] == event for e in self.events()):
            ended = any(e["stage"] == "analyze" and e["event"] == "end" for e in self.events())
            late = time.monotonic() > deadline
            assert not ended and not late, f"{stage} did not {event}: {self.events()[-3:]}"
            time.sleep(0.05)

    def left_over(self) -> list[str]:
        """Processes that still work in the data directory, PerfDB's server aside."""
        return [f"{process.pid} {text[:200]}" for process, text in self._living() if "mongod" not in text]

    def services(self) -> list[tuple[str, set[str]]]:
        """Of the processes that work in the data directory those that listen: names, and addresses."""
        found = []
        for process, _ in self._living():
            with suppress(psutil.Error):
                sockets = process.net_connections("inet")
                addresses = {one.laddr.ip for one in sockets if one.status == psutil.CONN_LISTEN}
                if addresses:
                    found.append((process.name(), addresses))
        return found

    def _living(self) -> Iterator[tuple[psutil.Process, str]]:
        """All that work in the data directory, with their command lines."""
        mine = str(self.data_dir)
        for process in psutil.process_iter():
            try:
                text = " ".join(process.cmdline())
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if mine in text or process.environ().get("INFERBENCH_DATA_DIR") == mine:
                    yield process, text
            except psutil.Error:
                continue


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser of a file's tests."""
    with browser.started() as started:
        yield started


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page in a context of its own."""
    with browser.fresh(chromium) as context:
        yield context.new_page()


@pytest.fixture(scope="module")
def kept_perfdb(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PerfDB]:
    """A PerfDB that the tests of a file share, for they read alone; the first of them finds it empty."""
    uri, folder = databases.take(), tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(settings.DATA_DIR, str(folder))
        with PerfDB.connect(uri, folder) as db:
            yield db
    databases.give_back(uri)


@pytest.fixture
def warm_cli(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A data directory in which ``digits`` has been made and converted before."""
    warm(cli.data_dir, tmp_path_factory)
    return cli


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    """A fresh data directory; whatever is left in it is ended afterwards."""
    with command_line(tmp_path) as fresh:
        yield fresh


@contextmanager
def command_line(base: Path) -> Iterator[Cli]:
    """With a data directory and a folder of its own in that one; whatever is left in them is ended afterwards."""
    folder = base / "work"
    folder.mkdir()
    with_data = Cli(base / "data", folder)
    try:
        yield with_data
    finally:
        for child in with_data.children:
            if child.poll() is None:
                _end(child)
            for stream in (child.stdout, child.stderr):
                if stream:
                    stream.close()
        embedded.stop(with_data.data_dir)


def _end(child: subprocess.Popen[str]) -> None:
    """As a user would, so that it ends what it started too, its servers; by force where that does not help."""
    child.terminate()
    try:
        child.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
