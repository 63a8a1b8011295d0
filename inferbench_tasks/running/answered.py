"""What a process that opened a stranger's model, or ran a stranger's code, answers: its paths are not believed.

Later stages open what it names with this process's rights, hand it to other hosts, and let servers and ranks read it.
So each path has to lie where that process could put it, in the run's folder or in the cache of what is made of this
model, as plain files and through no link; or it is one that the process was given: by its order, or by the submission.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import inferbench_tasks
from inferbench_tasks.contracts.located import CARRIER, SCHEME, references
from inferbench_tasks.contracts.located_files import LocatedFiles
from inferbench_tasks.errors import StageError, StorageError
from inferbench_tasks.running.place import Place, opens_strangers
from inferbench_tasks.stages.base import Context, JobInput
from inferbench_tasks.strangers_folder import not_plain


def require_own(output: BaseModel, inp: JobInput, ctx: Context, stage: str) -> None:
    """StageError where a path in the output of a stage's child is none of its own. What is ours is not looked at."""
    if not opens_strangers(inp):
        return
    place, given = Place.of(inp, ctx, kept=False), _Paths()
    inp.model_dump(mode="json", context={CARRIER: given})
    own = _Own(stage, place.fills, (*place.named, Path(inferbench_tasks.__file__).parent), given.paths)
    before = references(inp.model_dump(mode="json"))
    if strange := sorted(references(output.model_dump(mode="json")) - before):
        raise own.refused(f"{SCHEME}{strange[0]}", "an artifact that it was not given")
    told = _Paths()
    # Of files that lie in place the list is read by who sends them: so it is looked at before, with all they are.
    for files in _located(output):
        own.require_files(files)
    output.model_dump(mode="json", context={CARRIER: told})
    for path in sorted(told.paths):
        own.require(path)


@dataclass
class _Paths:
    """A carrier that takes nothing anywhere: what a document has of paths of this host."""

    paths: set[str] = field(default_factory=set)
    home: str = ""

    def send(self, path: str) -> str:
        self.paths.add(path)
        return path

    def send_files(self, folder: str, names: Sequence[str]) -> str:
        self.paths.add(folder)
        return folder

    def receive(self, reference: str) -> str:
        return reference


@dataclass(frozen=True)
class _Own:
    """``fills``: where the process may have written; ``named``: what the submission names; ``given``: of its order."""

    stage: str
    fills: tuple[Path, ...]
    named: tuple[Path, ...]
    given: set[str]

    def require(self, text: str) -> None:
        """StageError for a path that is none of its own, or no plain file or folder of such."""
        path = Path(text).absolute()
        if text in self.given:
            return
        if ".." in path.parts:
            raise self.refused(text, "no path in the run's folder")
        real = path.resolve()
        if any(_below(real, root.resolve()) for root in self.fills):
            self._require_plain(path)
        elif not any(real == root.resolve() or _below(real, root.resolve()) for root in self.named):
            raise self.refused(
                text,
                "neither in the run's folder, nor in the cache of its model, nor named by the submission",
            )

    def require_files(self, files: LocatedFiles) -> None:
        """StageError unless the list is its own, and each file of it a plain one below a folder that it may name."""
        if files.at or files.home:
            raise self.refused(files.at or files.home, "a place on a host, which it knows nothing of")
        self.require(files.listing)
        self.require(files.folder)
        if not files.listing_sha256 or files.listing_bytes <= 0:
            # So it is only of before that was told; with none it might be another list by the time that it is read.
            raise self.refused(files.listing, "a list without its SHA-256")
        try:
            names = files.names
        except (OSError, StorageError) as error:
            raise self.refused(files.listing, f"a list that can't be used ({error})") from error
        folders: set[str] = set()
        for name in names:
            for folder in _folders_of(name):
                if folder not in folders and not stat.S_ISDIR(self._mode(files.folder, folder)):
                    raise self.refused(os.path.join(files.folder, folder), "no folder but a link or a file")
                folders.add(folder)
            if not stat.S_ISREG(self._mode(files.folder, name)):
                raise self.refused(os.path.join(files.folder, name), "no plain file")

    def refused(self, path: str, what: str) -> StageError:
        """The error that names both."""
        return StageError(f"{self.stage}: its process answered with {path[:500]}, which is {what}")

    def _mode(self, folder: str, name: str) -> int:
        path = os.path.join(folder, name)
        try:
            return os.lstat(path).st_mode
        except OSError as error:
            raise self.refused(path, f"not to be had ({error.strerror})") from error

    def _require_plain(self, path: Path) -> None:
        """What is not there is found missing by whoever needs it."""
        if not os.path.lexists(path):
            return
        for root in self.fills:
            if _below(path, root) and path.resolve() != root.resolve() / path.relative_to(root):
                raise self.refused(str(path), "reached through a link")
        mode = path.lstat().st_mode
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise self.refused(str(path), "no plain file")
        # What lies beside a file (the ids of samples, a model's weights) is opened by its name, too.
        folder = path if stat.S_ISDIR(mode) else path.parent
        if (strange := next(not_plain(folder), None)) is not None:
            raise self.refused(str(path), f"in a folder with {strange[1]} in it ({strange[0]})")


def _below(path: Path, root: Path) -> bool:
    return path != root and path.is_relative_to(root)


def _folders_of(name: str) -> Iterator[str]:
    """``a`` and ``a/b`` of ``a/b/c``."""
    parts = name.split("/")[:-1]
    return ("/".join(parts[: at + 1]) for at in range(len(parts)))


def _located(value: Any) -> Iterator[LocatedFiles]:
    """All of them in an output, wherever."""
    if isinstance(value, LocatedFiles):
        yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _located(getattr(value, name))
    elif isinstance(value, dict):
        for part in value.values():
            yield from _located(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _located(part)
