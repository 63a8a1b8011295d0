"""Submissions that a study runs one after the other, with how far it is and what is left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.cli.paper_runs import Child, Done, not_here
from inferbench_tasks.output import say
from inferbench_tasks.pipelines.base import pipeline_of
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.sweep import expand

#: What starting, converting and ending a server takes around each job, until the first submissions tell.
AROUND_A_JOB_S = 5.0


@dataclass(frozen=True)
class Work:
    file: Path
    expected_s: float
    #: Why it can't be run here: a server that is not installed.
    unavailable: str | None = None


def work_of(file: Path) -> Work:
    """A submission with what is known of it before it runs; errors as of `validate`."""
    return Work(file, _expected_s(file), _unavailable(file))


def _expected_s(file: Path) -> float:
    submission = read_submission(file, INSTALLED)
    pipeline = pipeline_of(submission)
    return sum(pipeline.length_s(job.spec) + AROUND_A_JOB_S for job in expand(submission))


def _unavailable(file: Path) -> str | None:
    """Why a server of any of its jobs can't run here; None if all can."""
    for job in expand(read_submission(file, INSTALLED)):
        if isinstance(job.spec, JobSpec):
            serve = job.spec.serve
            if why := BACKENDS.load(serve.backend).unavailable(serve.launcher, serve.device.kind):
                return f"{serve.backend} does not run here: {why}"
    return None


def run_all(works: Sequence[Work], done: Done) -> list[dict[str, Any]]:
    """A row for each, in their order; what is done stays as it is."""
    version = _version()
    kept = {work.file: row for work in works if (row := done.row(work.file, version)) is not None}
    done_before = len(kept)
    for work in works:
        if work.unavailable:
            kept[work.file] = not_here(work.file, work.unavailable)
    left = [work for work in works if work.file not in kept]
    child, took_s, foreseen_s = Child(), 0.0, 0.0
    with child.signals():
        for position, work in enumerate(left):
            pace = took_s / foreseen_s if foreseen_s else 1.0
            rest_s = pace * sum(one.expected_s for one in left[position:])
            say(f"[{len(kept) + 1}/{len(works)}] {work.file.stem}: about {_minutes(rest_s)} left for all")
            began = time.monotonic()
            row = child.run(work.file)
            took_s, foreseen_s = took_s + time.monotonic() - began, foreseen_s + work.expected_s
            done.keep(work.file, version, row)
            kept[work.file] = row
    if done_before:
        say(f"{done_before} of {len(works)} were done within the last day; --again measures them anew")
    return [kept[work.file] for work in works]


def _version() -> str:
    """Of InferBench's code: what another version measured is not shown as this one's."""
    from importlib.metadata import version

    from inferbench_tasks.monitors.environment import git_state

    return git_state()[0] or version("inferbench")


def _minutes(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    return f"{minutes} minute{'' if minutes == 1 else 's'}"
