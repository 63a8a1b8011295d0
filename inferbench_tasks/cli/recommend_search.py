"""``inferbench recommend --search``: the configurations that a search asks for, run one after the other here."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from inferbench_tasks import settings
from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.recommender import Recommendation
from inferbench_tasks.analysis.report.compose import REPORT_FILE, make_report
from inferbench_tasks.analysis.search.live import LiveSearch, goal_of, measured_before
from inferbench_tasks.analysis.search.searcher import budget_of
from inferbench_tasks.errors import InputError
from inferbench_tasks.monitors import environment
from inferbench_tasks.output import say
from inferbench_tasks.perfdb.offered import offered
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.running.cluster_abilities import of_machine_here, on_one_system
from inferbench_tasks.running.conclude import conclude
from inferbench_tasks.running.invocation import Invocation, Order
from inferbench_tasks.stages.collect import load_document
from inferbench_tasks.submission.prompt_words import prompt_words
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.schema import JobSpec, Submission, loaded_only, serving_only
from inferbench_tasks.submission.sweep import Job, each_job_once, expand

#: How long a run may take to clean up after a Ctrl-C before it is killed.
GRACE_S = 30.0
_POLL_S = 0.1


def search(
    file: Path, objective: str, bounds: list[Bound], *, runs: int | None, settle: int, seed: int
) -> Recommendation:
    """Search a submission's sweep and recommend from it; stopped by a signal, it exits with 128 + its number."""
    what = "`inferbench recommend --search`"
    here = of_machine_here(settings.data_dir())
    submission = each_job_once(serving_only(read_submission(file, here), what), what)
    on_one_system(submission, what)
    jobs = under_one_load(expand(submission))
    goal = goal_of(objective, submission.slo, bounds)
    data_dir = settings.writable(settings.data_dir())
    hardware = environment.hardware()
    if submission.serve.device.kind != "cpu":
        hardware["gpu"] = environment.gpu_used(
            os.getpid(), by_bus=True
        )  # as the servers that are started from here
    device = environment.device_name(submission.serve.device.kind, hardware)
    cores = environment.granted_cores(hardware)
    with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
        runner = Runner(db, data_dir, file.absolute().parent)
        live = LiveSearch(jobs, goal, runner.run, say, seed, measured_before(db, jobs, device, cores))
        before = [document["run_id"] for document in live.documents]
        with runner.signals():
            live.search(min(runs or budget_of(len(jobs)), len(jobs)))
            live.settle(settle)
        say(f"{live.runs_started} run(s) made for a space of {len(jobs)} configuration(s)")
        report = Invocation.new(data_dir, f"{submission.name}-search").dir / REPORT_FILE
        plain = submission.model_dump(mode="json", exclude_defaults=True)
        make_report(db, [*before, *live.run_ids], plain, report)
        say(f"report    {report}")
        return live.recommendation()


def under_one_load(jobs: list[Job[JobSpec]]) -> list[Job[JobSpec]]:
    """The same; InputError where jobs are offered different rates: the one that is offered most would win by that.

    How many users wait for answers, and how many samples they send at once, may be what is looked for.
    """
    if len(prompts := dict.fromkeys(prompt_words(job.spec.requests) for job in jobs)) > 1:
        raise InputError(
            f"The jobs of this submission ask for {len(prompts)} different kinds of prompts "
            f"({'; '.join(str(words) for words in [*prompts][:4])}), and shorter ones are answered sooner: search "
            "under one of them.",
            field="requests",
        )
    for job in jobs:
        loaded_only(job.spec, "a search")
    loads = dict.fromkeys(
        offered(load_document(job.spec))
        for job in jobs
        if job.spec.traffic.arrivals.loop == "open" and job.spec.traffic.arrivals.paced
    )
    if len(loads) > 1:
        names = "; ".join([*loads][:4]) + ("; ..." if len(loads) > 4 else "")
        raise InputError(
            f"The jobs of this submission are offered {len(loads)} different loads ({names}), and a server shows the "
            "rate that it is offered: search under one of them. arrivals: {kind: max_rate} looks for each "
            "configuration's own highest rate.",
            field="load.arrivals",
        )
    return jobs


class Runner:
    """Runs a job as an invocation of its own, as ``inferbench run --inline`` does."""

    def __init__(self, db: PerfDB, data_dir: Path, base_dir: Path) -> None:
        self._db, self._data_dir, self._base_dir = db, data_dir, base_dir
        self._current: tuple[Invocation, subprocess.Popen[bytes]] | None = None
        self._stopped_by: int | None = None
        self._console = Console(stderr=True)

    def run(self, job: Job[JobSpec]) -> dict[str, Any] | None:
        """Its result; typer.Exit once a signal stopped it, after it was cleaned up and recorded."""
        submission = Submission.model_validate(job.spec.model_dump(mode="json"))
        invocation = Invocation.new(self._data_dir, submission.name)
        invocation.place(
            Order(submission=submission, base_dir=str(self._base_dir), data_dir=str(self._data_dir))
        )
        with open(invocation.dir / "log.txt", "ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "inferbench_tasks.running.inline", str(invocation.dir)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, settings.DATA_DIR: str(self._data_dir)},
            )
        self._current = (invocation, child)
        self._follow(invocation, child)
        results = conclude(invocation, self._db, cancelled=self._stopped_by is not None)
        self._current = None
        if self._stopped_by is not None:
            say("Stopped. What was measured stays in PerfDB; the same command goes on from there.")
            raise typer.Exit(128 + self._stopped_by)
        return to_plain(results[0].model_dump()) if results else None

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Within it, Ctrl-C and SIGTERM end the current run in order, a second one at once."""
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, self._stop) for number in numbers}
        logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s %(message)s")
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, signum: int, frame: FrameType | None) -> None:
        again = self._stopped_by is not None
        self._stopped_by = self._stopped_by or signum
        if self._current is None:
            raise typer.Exit(128 + signum)
        invocation, child = self._current
        invocation.cancel()
        if child.poll() is None:
            if again:
                os.killpg(child.pid, signal.SIGKILL)
            else:
                child.send_signal(signal.SIGTERM)

    def _follow(self, invocation: Invocation, child: subprocess.Popen[bytes]) -> None:
        deadline: float | None = None
        with self._console.status("starting", spinner="dots") as status:
            while child.poll() is None:
                if self._stopped_by is not None:
                    deadline = deadline or time.monotonic() + GRACE_S
                    if time.monotonic() > deadline:
                        os.killpg(child.pid, signal.SIGKILL)
                if self._console.is_terminal:
                    status.update(escape(_newest(invocation.dir / "events.jsonl")))
                time.sleep(_POLL_S)


def _newest(events: Path) -> str:
    """What the run's last event says."""
    try:
        lines = events.read_bytes()[-4000:].splitlines()
    except OSError:
        return "starting"
    for line in reversed(lines):
        try:
            event = json.loads(line)
        except ValueError:
            continue  # half written, or cut in front
        return f"    {event['stage']}  {event.get('text') or event.get('state') or ''}"
    return "starting"
