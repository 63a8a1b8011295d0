"""What a session has timed so far, line by line: a session that is ended goes on where it was.

Lines are ``{"before": references}`` as a round begins (``at``: when, s), ``{"item": name, "times": ...}`` after each
item, ``{"again": references}`` where another process goes on, and ``{"after": references}`` at its end. All but the
first have ``waited_ns``, ``stolen_ns`` and ``took_ns``, counted from the beginning of the round; items have
``item_ns``, what they took alone; where a process begins stands whose it is (``by``). A line that was cut off is none.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferbench_tasks.bricks.measure.levels import LEVEL_RATIO, Round, good_rounds, level_of
from inferbench_tasks.bricks.measure.method import Method, Setting

#: What is older is measured anew: nobody knows what became of the machine since.
MOST_AGE_S = 86_400.0


@dataclass
class OpenRound:
    """A round that has not ended: what the references took, and the items that were timed since.

    ``waited_ns``: for cores, ``stolen_ns``: what the hypervisor took of each, the mean; each None where the kernel does
    not tell. ``earlier_ns``: what of ``took_ns`` was another's.
    """

    references: list[Mapping[str, float]]
    times: dict[str, Any] = field(default_factory=dict)
    taken_ns: dict[str, int] = field(default_factory=dict)
    waited_ns: int | None = 0
    stolen_ns: int | None = 0
    took_ns: int = 0
    earlier_ns: int = 0

    def may_count(self, took_ns: float = 0.0) -> bool:
        """Whether it had its cores to itself so far: else all of it is measured anew. ``took_ns``: whether it will have
        had, if it takes so long in the end and nothing more is lost."""
        return self.closed(took_ns).alone

    def near(self, references_ns: Mapping[str, float]) -> bool:
        """Whether the machine is as fast now as when the round began: else its halves have no level in common."""
        return all(abs(level_of(references_ns, before) - 1) <= LEVEL_RATIO for before in self.references)

    def closed(self, took_ns: float = 0.0) -> Round:
        """The round, at the mean of all timings of the references; ``took_ns``: as if it had taken that long."""
        all_ns = max(1, self.took_ns, took_ns)
        waited, stolen = (ns if ns is None else ns / all_ns for ns in (self.waited_ns, self.stolen_ns))
        level = {
            name: sum(one[name] for one in self.references) / len(self.references)
            for name in self.references[0]
        }
        return Round(level, waited, self.taken_ns, self.took_ns, self.earlier_ns, stolen)


class Journal:
    """One session's, in a file that is appended to; without a path nothing is kept. ``by``: who measures now."""

    def __init__(self, path: Path | None, by: str | None = None) -> None:
        self.rounds: list[tuple[Round, dict[str, Any]]] = []
        self.open: OpenRound | None = None
        self.by = by
        self._path, self._writer = path, by
        for line in _lines(path) if path else ():
            self._take(line)

    def usable(self, names: Collection[str]) -> list[tuple[Round, dict[str, Any]]]:
        """Of the rounds that ended those that count and have times of all these networks. Others are measured anew, and
        do not use up the rounds that may be: who goes on may find a quieter machine."""
        every = [(one, times) for one, times in self.rounds if all(name in times for name in names)]
        return [every[index] for index in good_rounds([one for one, _ in every])]

    def write(self, **line: Any) -> None:
        """Append a line: what is written here is not lost with this process."""
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def _take(self, line: dict[str, Any]) -> None:
        if "before" in line or "again" in line:
            self._writer = line.get("by")
        if "before" in line:
            old = time.time() - line.get("at", math.inf) > MOST_AGE_S
            self.open = None if old else OpenRound([line["before"]])
            return
        if self.open is None:
            return
        self.open.waited_ns, self.open.stolen_ns = line.get("waited_ns"), line.get("stolen_ns")
        self.open.took_ns = line.get("took_ns", 0)
        if self._writer != self.by:
            self.open.earlier_ns = self.open.took_ns
        if "item" in line:
            self.open.times[line["item"]] = line["times"]
            self.open.taken_ns[line["item"]] = line.get("item_ns", 0)
        elif "again" in line:
            self.open.references.append(line["again"])
        elif "after" in line:
            self.open.references.append(line["after"])
            self.rounds.append((self.open.closed(), self.open.times))
            self.open = None


def sessions(data_dir: Path) -> Path:
    """Where sessions that were ended, or disturbed, have left what they timed."""
    return data_dir / "bricks" / "sessions"


@contextmanager
def session_file(
    folder: Path, names: Iterable[str], setting: Setting, method: Method, only: str | None = None
) -> Iterator[Path | None]:
    """The journal of a session of these networks, which nobody else writes to meanwhile; None where somebody does.

    ``only``: the run whose it is; None: whoever's that times the same. It is removed by ``done``, or, as all others
    there, once it is too old.
    """
    document = json.dumps(
        [sorted(names), setting.model_dump(mode="json"), method.model_dump(mode="json"), only]
    )
    path = folder / f"{hashlib.sha256(document.encode()).hexdigest()[:24]}.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        _forget_old(folder)
        yield path


def _forget_old(folder: Path) -> None:
    """Whoever writes to one has just done so."""
    for path in folder.glob("*.jsonl"):
        with suppress(FileNotFoundError):  # somebody else forgets it, or it is done
            if time.time() - path.stat().st_mtime > MOST_AGE_S:
                path.unlink()


def done(path: Path | None) -> None:
    """What it holds is stored elsewhere now."""
    if path is not None:
        path.unlink(missing_ok=True)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    whole, _, cut_off = text.rpartition("\n")
    if cut_off:  # the line that was being written
        os.truncate(path, len((whole + "\n").encode()) if whole else 0)
    for line in whole.splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return  # what follows a line that is none is measured anew
