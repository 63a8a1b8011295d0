"""What a running invocation shows on stderr: a bar per stage on a terminal, lines elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from inferbench_tasks.problem import compact
from inferbench_tasks.running.invocation import Invocation
from inferbench_tasks.submission.base import JobBase
from inferbench_tasks.submission.sweep import Job

POLL_S = 0.1


class Watcher:
    """Follows an invocation's events until its process ends.

    ``stopped_by`` is the number of the signal by which the user stopped it, None otherwise; ``refused``: whether a
    stage found the user's input wrong.
    """

    def __init__(self, invocation: Invocation, jobs: list[Job[JobBase]]) -> None:
        self.stopped_by: int | None = None
        self.refused = False
        self._events = invocation.dir / "events.jsonl"
        self._jobs = {job.index: job for job in jobs}
        self._console = Console(stderr=True)
        self._bars: dict[str, TaskID] = {}
        self._job: int | None = None
        self._position = 0
        self._progress = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description:<9}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )

    def watch(self, child: subprocess.Popen[bytes], *, grace_s: float) -> int:
        """Show the events until the child ends; returns its exit code.

        Once the user has stopped it, the child gets ``grace_s`` to clean up and is then killed.
        """
        self._say(f"{len(self._jobs)} job(s)")
        deadline: float | None = None
        with self._progress:
            while (code := child.poll()) is None:
                if self.stopped_by is not None:
                    deadline = deadline or self._announce_stop(grace_s)
                    if time.monotonic() > deadline:
                        os.killpg(child.pid, signal.SIGKILL)
                self._show_new()
                time.sleep(POLL_S)
            self._show_new()
        return code

    def _announce_stop(self, grace_s: float) -> float:
        self._say("Stopping: the server is ended and the run recorded as cancelled (again to force) ...")
        return time.monotonic() + grace_s

    def _show_new(self) -> None:
        if not self._events.exists():
            return
        with open(self._events, "rb") as file:
            file.seek(self._position)
            data = file.read()
        complete = data.rfind(b"\n") + 1
        self._position += complete
        for line in data[:complete].splitlines():
            self._show(json.loads(line))

    def _show(self, event: dict[str, Any]) -> None:
        stage, index = event["stage"], event["job"]
        begins = index is not None and index != self._job
        if self.stopped_by is not None and begins:
            return  # of the jobs that are left: each is only recorded as cancelled
        if event["event"] == "start":
            if begins:
                self._begin_job(index)
            self._bars[stage] = self._progress.add_task(stage, total=None, text="")
        elif event["event"] == "progress" and stage in self._bars:
            self._progress.update(
                self._bars[stage], completed=event["done"], total=event["total"], text=event["text"]
            )
        elif event["event"] == "end":
            self._end(stage, event)

    def _begin_job(self, index: int) -> None:
        for bar in self._bars.values():
            self._progress.remove_task(bar)
        self._bars.clear()
        self._job = index
        job = self._jobs[index]
        point = ", ".join(f"{path}={compact(value)}" for path, value in job.point.items())
        self._say(f"[{index + 1}/{len(self._jobs)}] {job.job_id}{'  ' + point if point else ''}")

    def _end(self, stage: str, event: dict[str, Any]) -> None:
        ok = event["state"] == "done"
        self.refused |= event.get("refused", False)
        text = f"{event['seconds']:.1f} s" if ok else f"{event['state']}: {event['error']}"
        if stage in self._bars:
            self._progress.update(
                self._bars[stage], total=1, completed=1 if ok else 0, text=text.split("\n")[0]
            )
            self._progress.stop_task(self._bars[stage])
        if not ok or not self._console.is_terminal:
            self._say(f"  {stage:<9} {text}")

    def _say(self, text: str) -> None:
        self._console.print(escape(text), highlight=False, soft_wrap=True)
