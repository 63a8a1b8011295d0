"""Times of bricks and of whole models on this machine, kept in files: one each, written whole or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.errors import InputError

#: Before the identity of a whole model, which is timed as it is served: the brick of all its layers is another network.
WHOLE = "whole-"
DocumentT = TypeVar("DocumentT", bound=BaseModel)


class Result(BaseModel):
    """A brick's times, or a whole model's (``identity`` begins with ``WHOLE``).

    ``rounds_ns``: state -> one time per round, at the base level; ``raw_ns``: state -> all runs by round, as they were.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    identity: str
    key: str
    operators: tuple[str, ...]
    setting: Setting
    session: str
    method: Method
    """How much was asked for when it was timed."""
    rounds_ns: dict[str, tuple[float, ...]]
    raw_ns: dict[str, tuple[tuple[int, ...], ...]]
    parts: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Of a whole model: granularity -> the identities of its bricks, in order."""
    needs: dict[str, tuple[tuple[int, ...], ...]] = Field(default_factory=dict)
    """Of a whole model: granularity -> for each brick the positions of those that it takes from."""
    measured_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    disturbed: str | None = None
    """Why the machine was not quiet; such times are shown by whoever measured them, and never used again."""

    @model_validator(mode="after")
    def _times(self) -> Result:
        for state, times in self.rounds_ns.items():
            if len(times) < 2 or not all(0 < time < float("inf") for time in times):
                raise ValueError(f"{state}: at least two times above 0 are needed, not {times}")
        return self


class Base(BaseModel):
    """The references' times of the first session of a setting: the level that all times are stored at."""

    references_ns: dict[str, float]


class ResultStore(Protocol):
    """Where the results of one setting lie: files (``Results``) or PerfDB."""

    @property
    def setting(self) -> Setting:
        """What all its results hold for."""

    def base_ns(self) -> dict[str, float] | None:
        """The level's base; None before the first session."""

    def set_base_ns(self, base_ns: dict[str, float]) -> dict[str, float]:
        """Set it unless it is set; the one that counts: what is stored is relative to it."""

    def get(self, identity: str) -> Result | None:
        """The newest of a brick, or of a whole model."""

    def get_many(self, identities: Iterable[str]) -> dict[str, Result]:
        """The newest of each that there is; their raw times may be left out."""

    def put(self, result: Result) -> None:
        """Keep it."""

    def wholes(self) -> list[Result]:
        """Whole models that were measured at this setting."""


def setting_id(setting: Setting) -> str:
    """16 hex digits that differ where anything of the setting does."""
    return hashlib.sha256(setting.model_dump_json().encode()).hexdigest()[:16]


class Results:
    """Those of one setting, in a folder of its own below ``data_dir/bricks``."""

    def __init__(self, data_dir: Path, setting: Setting) -> None:
        self.setting = setting
        self._folder = data_dir / "bricks" / setting_id(setting)

    def base_ns(self) -> dict[str, float] | None:
        """The level's base; None before the first session."""
        base = _read(self._folder / "base.json", Base)
        return base.references_ns if base else None

    def set_base_ns(self, base_ns: dict[str, float]) -> dict[str, float]:
        """Set it unless it is set; the one that counts: what is stored is relative to it."""
        path = self._folder / "base.json"
        if self.base_ns() is None:
            own = path.with_name(f".base.{os.getpid()}")
            _write(own, Base(references_ns=base_ns))
            try:
                os.link(own, path)
            except FileExistsError:
                pass  # another session was first
            finally:
                own.unlink()
        return self.base_ns() or base_ns

    def get(self, identity: str) -> Result | None:
        """What was measured of a brick, or of a whole model."""
        return _read(self._folder / f"{identity}.json", Result)

    def get_many(self, identities: Iterable[str]) -> dict[str, Result]:
        """Those of them that were measured."""
        found = ((identity, self.get(identity)) for identity in dict.fromkeys(identities))
        return {identity: result for identity, result in found if result is not None}

    def put(self, result: Result) -> None:
        """Keep it; one that was there is replaced, as it was asked for to be measured again."""
        _write(self._folder / f"{result.identity}.json", result)

    def wholes(self) -> list[Result]:
        """Whole models that were measured at this setting."""
        paths = sorted(self._folder.glob(f"{WHOLE}*.json"))
        return [result for path in paths if (result := _read(path, Result)) is not None]


def _read(path: Path, schema: type[DocumentT]) -> DocumentT | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return schema.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(
            f"{path} is no result of a brick ({first['msg']}); remove it, and it is measured again"
        ) from None


def _write(path: Path, document: BaseModel) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(document.model_dump_json(), encoding="utf-8")
    partial.replace(path)
