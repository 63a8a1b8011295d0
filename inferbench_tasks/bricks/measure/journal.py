"""What a session has timed so far, line by line: a session that is killed goes on where it was.

Lines are ``{"before": references}`` as a round begins, ``{"item": name, "times": ...}`` after each item, ``{"again":
references}`` where another process goes on, and ``{"after": references}`` at its end. All but the first have
``waited_ns`` and ``took_ns``, counted from the beginning of the round; items have ``item_ns``, what they took alone. A
line that was cut off is none.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferbench_tasks.bricks.measure.levels import LEVEL_RATIO, Round, level_of
from inferbench_tasks.bricks.measure.method import Method, Setting

#: What is older is measured anew: nobody knows what became of the machine since.
MOST_AGE_S = 86_400.0


@dataclass
class OpenRound:
    """A round that has not ended: what the references took, and the items that were timed since.

    ``waited_ns``: for cores, None where the kernel does not tell.
    """

    references: list[Mapping[str, float]]
    times: dict[str, Any] = field(default_factory=dict)
    taken_ns: dict[str, int] = field(default_factory=dict)
    waited_ns: int | None = 0
    took_ns: int = 0

    def near(self, references_ns: Mapping[str, float]) -> bool:
        """Whether the machine is as fast now as when the round began: else its halves have no level in common."""
        return all(abs(level_of(references_ns, before) - 1) <= LEVEL_RATIO for before in self.references)

    def closed(self) -> Round:
        """The round, at the mean of all timings of the references."""
        level = {
            name: sum(one[name] for one in self.references) / len(self.references)
            for name in self.references[0]
        }
        wait_ratio = None if self.waited_ns is None else self.waited_ns / max(1, self.took_ns)
        return Round(level, wait_ratio, self.taken_ns)


class Journal:
    """One session's, in a file that is appended to; without a path nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self.rounds: list[tuple[Round, dict[str, Any]]] = []
        self.open: OpenRound | None = None
        self._path = path
        for line in _lines(path) if path else ():
            self._take(line)

    def write(self, **line: Any) -> None:
        """Append a line: what is written here is not lost with this process."""
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def _take(self, line: dict[str, Any]) -> None:
        if "before" in line:
            self.open = OpenRound([line["before"]])
            return
        if self.open is None:
            return
        self.open.waited_ns, self.open.took_ns = line.get("waited_ns"), line.get("took_ns", 0)
        if "item" in line:
            self.open.times[line["item"]] = line["times"]
            self.open.taken_ns[line["item"]] = line.get("item_ns", 0)
        elif "again" in line:
            self.open.references.append(line["again"])
        elif "after" in line:
            self.open.references.append(line["after"])
            self.rounds.append((self.open.closed(), self.open.times))
            self.open = None


@contextmanager
def session_file(
    folder: Path, names: Iterable[str], setting: Setting, method: Method
) -> Iterator[Path | None]:
    """The journal of a session of these networks, which nobody else writes to meanwhile; None where somebody does.

    It is removed by ``done``, or once it is too old.
    """
    document = json.dumps([sorted(names), setting.model_dump(mode="json"), method.model_dump(mode="json")])
    path = folder / f"{hashlib.sha256(document.encode()).hexdigest()[:24]}.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        if path.exists() and time.time() - path.stat().st_mtime > MOST_AGE_S:
            path.unlink()
        yield path


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
