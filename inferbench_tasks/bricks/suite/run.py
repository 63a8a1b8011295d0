"""A stranger's suite is timed on this machine: in the sandbox, without its models, a database or Airflow."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from inferbench_tasks.bricks.measure.child import Item
from inferbench_tasks.bricks.measure.method import Method
from inferbench_tasks.bricks.measure.session import (
    BrickFailed,
    cores_for,
    judged,
    run_rounds,
    setting,
    why_not,
)
from inferbench_tasks.bricks.suite.answer import Answer, TimedRound, rounds_of
from inferbench_tasks.bricks.suite.inspect import inspected
from inferbench_tasks.bricks.suite.manifest import read_suite
from inferbench_tasks.errors import StageError

#: So many networks, or bytes of them, are in memory at once: one session.
_MOST_NETWORKS, _MOST_BYTES = 400, 1_000_000_000
#: A session beside others' load is timed again so often.
_ATTEMPTS = 3
Progress = Callable[[float, float, str], None]


def run_suite(folder: Path, threads: int, progress: Progress = lambda done, of, what: None) -> Answer:
    """The times of all networks, sealed. InputError for a folder that is no suite, before anything of it is run;
    StageError where the machine is not quiet or no network can be timed."""
    here = setting(cores_for(threads), threads)
    with tempfile.TemporaryDirectory(prefix="inferbench-suite-") as scratch:
        work = Path(scratch) / "work"
        work.mkdir()
        manifest, digest, items = read_suite(folder, Path(scratch) / "networks")
        inspected(items, work)
        failed: dict[str, str] = {}
        sessions = [
            rounds
            for part in _parts(items)
            if (rounds := _timed(part, work, manifest.method.method(), threads, failed, progress))
        ]
    if not sessions:
        name, why = next(iter(failed.items()))
        raise StageError(f"no network of the suite can be timed here; {name}: {why}")
    return Answer(
        suite=digest, setting=here, method=manifest.method, measured_at=datetime.now(UTC).isoformat(),
        sessions=tuple(sessions), failed=failed,
    ).sealed()  # fmt: skip


def _timed(
    items: list[Item], work: Path, method: Method, threads: int, failed: dict[str, str], progress: Progress
) -> tuple[TimedRound, ...] | None:
    """One session's rounds, without the networks that fail; None where all do."""
    attempt = 1
    while items:
        try:
            rounds: list[Any] = run_rounds(items, work, method, threads=threads, progress=progress)
        except BrickFailed as error:
            failed[error.item] = error.why[:500]
            items = [item for item in items if item.name != error.item]
            continue
        why = why_not(judged(rounds, method, None), method)
        if why is None:
            return rounds_of(rounds)
        if attempt == _ATTEMPTS:
            raise StageError(f"after {attempt} attempts {why}; nothing was written")
        attempt += 1
    return None


def _parts(items: Sequence[Item]) -> Iterator[list[Item]]:
    part: list[Item] = []
    size = 0
    for item in items:
        own = item.path.stat().st_size + item.feeds.stat().st_size
        if part and (len(part) == _MOST_NETWORKS or size + own > _MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(item)
        size += own
    yield part
