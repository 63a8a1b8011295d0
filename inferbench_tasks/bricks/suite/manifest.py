"""The folder of a suite: ``suite.json`` and, for each network, ``networks/NAME.onnx`` with its inputs ``NAME.npz``.

Names are drawn by chance, their order and all times of files say nothing. Who reads a suite believes nothing of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from inferbench_tasks.bricks.measure.child import Item
from inferbench_tasks.bricks.measure.method import FEWEST_RUNS, VERSION, Method, runs_problem
from inferbench_tasks.errors import InputError
from inferbench_tasks.problem import field_problems
from inferbench_tasks.strangers_folder import opened

FILE, NETWORKS = "suite.json", "networks"
#: A suite that is larger is refused before it is read.
MOST_FILES, MOST_BYTES = 100_000, 4_000_000_000
_MOST_MANIFEST_BYTES = 64_000_000
_NAME = re.compile(r"[0-9a-f]{16}\.(onnx|npz)")
#: All files are of this moment, s: 1 January 1980, the first that archives know.
_WRITTEN_AT = 315_532_800
Name = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
DocumentT = TypeVar("DocumentT", bound=BaseModel)


class Strict(BaseModel):
    """Nothing that is not named here, no number in a text."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Entry(Strict):
    """One network. ``onto``: see ``measure/bound.py``."""

    name: Name
    network: Digest
    inputs: Digest
    onto: tuple[tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]], ...] = ()


class Wish(Strict):
    """How it is to be timed: a ``Method`` that takes no machine for ever."""

    runs: int = Field(ge=FEWEST_RUNS * 3, le=10_000)
    rounds: int = Field(ge=3, le=20)
    budget_s: float = Field(gt=0, le=60, allow_inf_nan=False)

    @model_validator(mode="after")
    def _enough(self) -> Wish:
        if (problem := runs_problem(self.runs, self.rounds)) is not None:
            raise ValueError(problem)
        return self

    def method(self) -> Method:
        """The same, as sessions take it."""
        return Method(runs=self.runs, rounds=self.rounds, budget_s=self.budget_s)


class Manifest(Strict):
    """``method_version``: of how bricks are timed (``measure/method.py``)."""

    format: Literal["inferbench-bricks"] = "inferbench-bricks"
    format_version: Literal[1] = 1
    method_version: int = VERSION
    method: Wish
    networks: tuple[Entry, ...] = Field(min_length=1)


def digest_of(text: bytes) -> str:
    """SHA-256 in hex digits: what names a suite, and what binds results to it."""
    return hashlib.sha256(text).hexdigest()


def canonical(document: BaseModel) -> bytes:
    """The one spelling of a document: what is spelled otherwise was changed."""
    return (
        json.dumps(
            document.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), allow_nan=False
        ).encode()
        + b"\n"
    )


def parsed(text: bytes, schema: type[DocumentT], what: str) -> DocumentT:
    """A document in its one spelling; InputError says what is wrong with it."""
    try:
        document = schema.model_validate_json(text)
        spelled = canonical(document)
    except (ValidationError, ValueError) as error:
        why = str(error)
        if isinstance(error, ValidationError):
            why = field_problems(error, "it")[0][:200]
        raise InputError(f"{what} is not what InferBench writes: {why}") from None
    if spelled != text:
        raise InputError(f"{what} is not as InferBench wrote it: it was changed")
    return document


def write_suite(folder: Path, wish: Wish, networks: Iterable[tuple[Entry, Path, Path]]) -> str:
    """Write entries with their network and inputs, in the order given; the suite's digest.

    InputError where the folder has anything in it.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already; name an empty folder", field="output")
    (folder / NETWORKS).mkdir(parents=True, exist_ok=True)
    entries = []
    for entry, network, inputs in networks:
        for source, suffix in ((network, "onnx"), (inputs, "npz")):
            _plain_copy(source, folder / NETWORKS / f"{entry.name}.{suffix}")
        entries.append(entry)
    text = canonical(Manifest(method=wish, networks=tuple(entries)))
    (folder / FILE).write_bytes(text)
    for path in (folder / FILE, folder / NETWORKS, folder):
        os.utime(path, (_WRITTEN_AT, _WRITTEN_AT))
    return digest_of(text)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_suite(folder: Path, copy: Path) -> tuple[Manifest, str, list[Item]]:
    """(What a stranger's folder holds, its digest, its networks as they were copied to ``copy``).

    InputError for links, other files than those named, more or larger ones than allowed, and for each byte that is
    not the one that was written. What is timed afterwards is the copy: nobody changes it meanwhile.
    """
    sizes = _listed(folder)
    if len(sizes) > MOST_FILES or sum(sizes.values()) > MOST_BYTES:
        raise InputError(
            f"{folder} has {len(sizes):,} files of {sum(sizes.values()):,} bytes; at most {MOST_FILES:,} files of "
            f"{MOST_BYTES:,} bytes are read",
            field="suite",
        )
    text = _read(folder / FILE, _MOST_MANIFEST_BYTES)
    manifest = parsed(text, Manifest, FILE)
    if manifest.method_version != VERSION:
        raise InputError(
            f"this suite is to be timed by version {manifest.method_version} of the method, this InferBench has "
            f"{VERSION}: run it with the version that exported it",
            field="suite",
        )
    names = {entry.name for entry in manifest.networks}
    wanted = {f"{NETWORKS}/{name}.{suffix}" for name in names for suffix in ("onnx", "npz")} | {FILE}
    if len(names) < len(manifest.networks) or wanted != set(sizes):
        strange = sorted(wanted ^ set(sizes))[:3]
        raise InputError(
            f"{folder} does not have the files that {FILE} names: {', '.join(strange)}", field="suite"
        )
    copy.mkdir(parents=True)
    items = []
    for entry in manifest.networks:
        item = Item(
            name=entry.name,
            path=copy / f"{entry.name}.onnx",
            feeds=copy / f"{entry.name}.npz",
            onto=entry.onto,
        )
        for path, digest in ((item.path, entry.network), (item.feeds, entry.inputs)):
            relative = f"{NETWORKS}/{path.name}"
            _copy(folder / relative, path, sizes[relative])
            if file_digest(path) != digest:
                raise InputError(
                    f"{relative} is not the file that was exported: it was changed", field="suite"
                )
        items.append(item)
    return manifest, digest_of(text), items


def _listed(folder: Path) -> dict[str, int]:
    """Path below the folder -> size, bytes; InputError where there is anything but plain files in their places."""
    if not folder.is_dir() or folder.is_symlink():
        raise InputError(
            f"{folder} is no folder of a suite (a link or an archive is none either)", field="suite"
        )
    sizes: dict[str, int] = {}
    for place, expected in (("", {FILE}), (f"{NETWORKS}/", None)):
        try:
            with os.scandir(folder / place) as entries:
                for entry in entries:
                    kind = entry.stat(follow_symlinks=False)
                    if not place and entry.name == NETWORKS and stat.S_ISDIR(kind.st_mode):
                        continue
                    plain = stat.S_ISREG(kind.st_mode) and kind.st_nlink == 1
                    known = entry.name in expected if expected else _NAME.fullmatch(entry.name)
                    if not plain or not known:
                        raise InputError(
                            f"{place}{entry.name[:80]!r} is no plain file of a suite", field="suite"
                        )
                    sizes[place + entry.name] = kind.st_size
                    if len(sizes) > MOST_FILES:
                        return sizes
        except OSError as error:
            raise InputError(f"{folder / place} can't be read: {error.strerror}", field="suite") from None
    return sizes


def _read(path: Path, most: int) -> bytes:
    with _opened(path) as file:
        text = file.read(most + 1)
    if len(text) > most:
        raise InputError(f"{path} has more than {most:,} bytes")
    return text


def _copy(source: Path, target: Path, size: int) -> None:
    """So many bytes of it: a file that grows meanwhile is another one."""
    with _opened(source) as file, target.open("xb") as out:
        left = size
        while left and (part := file.read(min(left, 1 << 20))):
            out.write(part)
            left -= len(part)


def _opened(path: Path) -> IO[bytes]:
    try:
        return opened(path)
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from None


def _plain_copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    target.chmod(0o644)
    os.utime(target, (_WRITTEN_AT, _WRITTEN_AT))
