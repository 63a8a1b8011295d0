"""A run that is under way: what it has told so far, its parts as processes, and how it ended."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil

from inferbench_tasks import settings
from inferbench_tasks.launchers import records
from tests.e2e.conftest import PATIENCE_S, Cli

T = TypeVar("T")
#: Of a server, s: it has answered some of the requests that it is asked, and not nearly all.
_ANSWERED_CPU_S = 0.03
_SENDER = "inferbench_tasks.loadgen.shard"


def until(check: Callable[[], T | None], what: str) -> T:
    """What ``check`` returns once it is something; looked at so often that little happens between two looks."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := check()):
        assert time.monotonic() < deadline, what
        time.sleep(0.002)
    return found


class GoingRun:
    """``inferbench run --inline`` of a submission of one job, in a data directory that other runs had before."""

    def __init__(self, cli: Cli, text: str, temporary: Path) -> None:
        self._data_dir = cli.data_dir
        before = set(cli.data_dir.glob("invocations/*"))
        self._child = cli.start("run", cli.submission(text), "--inline", TMPDIR=str(temporary))
        self.invocation: Path = until(
            lambda: next(iter(set(cli.data_dir.glob("invocations/*")) - before), None), "nothing was begun"
        )
        self.run_id = f"{self.invocation.name}.000"

    def told(self, text: str, times: int = 1) -> None:
        """Wait until its progress has said that so often."""

        def told_often() -> bool:
            assert self._child.poll() is None, "it has ended"
            texts = [event.get("text", "") for event in self._events()]
            return sum(text in each for each in texts) >= times

        until(told_often, f"it never told {text!r}")

    def runner(self) -> psutil.Process:
        """The process that runs the stages."""

        def inline() -> psutil.Process | None:
            children = psutil.Process(self._child.pid).children()
            return next(
                (each for each in children if "inferbench_tasks.running.inline" in command(each)), None
            )

        return until(inline, "nothing runs the stages")

    def server(self) -> psutil.Process:
        """Its server, while it is asked: it has answered some requests of a sender that goes on."""
        runner = self.runner()
        process = until(self._recorded, "no server")
        until(lambda: any(_SENDER in command(each) for each in runner.children()), "no sender")
        used_s = cpu_s(process)
        until(lambda: cpu_s(process) > used_s + _ANSWERED_CPU_S, "it is asked nothing")
        return process

    def kill(self) -> None:
        """The command and the process of the stages, at once: neither hears of the other's end."""
        runner = self.runner()
        runner.suspend()
        self._child.kill()
        runner.kill()
        self._child.wait()

    def ended(self) -> subprocess.CompletedProcess[str]:
        """Wait for its end."""
        out, err = self._child.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(self._child.args, self._child.returncode, out, err)

    def _events(self) -> list[dict[str, Any]]:
        path = self.invocation / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def _recorded(self) -> psutil.Process | None:
        of_run = records.read_all(settings.servers_dir(self._data_dir)).values()
        pids = [each.server.pid for each in of_run if each.run_id == self.run_id and each.server is not None]
        return psutil.Process(pids[0]) if pids else None


def command(process: psutil.Process) -> list[str]:
    """Its words; none once it has ended."""
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def cpu_s(process: psutil.Process) -> float:
    """What it has used with all that it started."""
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)
