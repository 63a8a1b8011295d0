"""The log of a scheduler as JSON lines: every event, every decision, in the order in which they were.

    {"log": "inferbench-scheduling", "version": 1, "policy": "late_sjf_aged", "params": {...}}
    {"event": "Submitted", "at_s": 12.5, "job": {"job_id": "a", ...}}
    {"decide": 12.5, "decisions": [{"decision": "Place", "job_id": "a", ...}]}

An infinite number is written as "inf". A decision is logged where it was taken, before the events that it led to. A
last line without an end is what a crash cut off, and is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.scheduling import decisions as dec
from inferbench_tasks.scheduling import events as ev
from inferbench_tasks.scheduling.decide import decide
from inferbench_tasks.scheduling.index import Index
from inferbench_tasks.scheduling.model import Params, QueuedJob

LOG = "inferbench-scheduling"
VERSION = 1

_EVENTS: dict[str, type[Any]] = {kind.__name__: kind for kind in ev.Event.__args__}
_DECISIONS: dict[str, type[Any]] = {kind.__name__: kind for kind in dec.Decision.__args__}
#: Types that stand in JSON as they are, and what they may be there.
_PLAIN: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}
#: Of each kind: field -> its type, of those.
_TYPES = {
    kind: {f.name: str(f.type) for f in fields(kind) if str(f.type).removesuffix(" | None") in _PLAIN}
    for kind in (*_EVENTS.values(), *_DECISIONS.values(), QueuedJob)
}
_TUPLES = {"devices", "names"}
_SETS = {"device_types", "avoid", "elsewhere", "not_its_own", "unable"}


@dataclass(frozen=True, slots=True)
class Decided:
    """The decisions that the scheduler took at ``now_s``."""

    now_s: float
    decisions: tuple[dec.Decision, ...]


class EventLog:
    """Writes a log; each line is complete in the file when its method returns."""

    def __init__(self, file: IO[str], policy: str, params: Params) -> None:
        self._file = file
        self._write({"log": LOG, "version": VERSION, "policy": policy, "params": to_json(params)})

    def event(self, event: ev.Event) -> None:
        self._write({"event": type(event).__name__, **to_json(event)})

    def decided(self, now_s: float, decisions: Sequence[dec.Decision]) -> None:
        lines = [{"decision": type(d).__name__, **to_json(d)} for d in decisions]
        self._write({"decide": now_s, "decisions": lines})

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n")
        self._file.flush()


@dataclass(frozen=True, slots=True)
class LogFile:
    """A recorded log: its parameters and its events and decisions in order."""

    policy: str
    params: Params
    records: tuple[ev.Event | Decided, ...]

    @property
    def events(self) -> tuple[ev.Event, ...]:
        return tuple(r for r in self.records if not isinstance(r, Decided))

    @property
    def decided(self) -> tuple[Decided, ...]:
        return tuple(r for r in self.records if isinstance(r, Decided))


def read_log(path: Path) -> LogFile:
    """Raises InputError, with the line, if it is not such a log."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read: {error}") from error
    lines = text.splitlines()
    if lines and not text.endswith("\n"):
        lines.pop()
    numbered = enumerate(lines, start=1)
    try:
        number, header = 1, json.loads(next(numbered)[1])
        if header.get("log") != LOG or header.get("version") != VERSION:
            raise InputError(f"{path} is not a scheduling log of version {VERSION}")
        policy, params = header["policy"], _params(header["params"])
        if not isinstance(policy, str):
            raise TypeError(f"policy is {policy!r}, no name")
        records: list[ev.Event | Decided] = []
        for number, line in numbered:  # noqa: B007 (the message below names the line)
            records.append(_record(json.loads(line)))
    except StopIteration:
        raise InputError(f"{path} is empty") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}:{number} is not a line of a scheduling log: {error!r}") from error
    return LogFile(policy, params, tuple(records))


def replay(log: LogFile) -> list[Decided]:
    """What ``decide`` says at each decision of the log, given its events; equal to ``log.decided`` if all is well."""
    index = Index(log.params)
    out: list[Decided] = []
    for record in log.records:
        if isinstance(record, Decided):
            out.append(Decided(record.now_s, tuple(decide(index, record.now_s, log.params))))
        else:
            index.apply(record)
    return out


def differences(log: LogFile) -> Iterator[tuple[Decided, Decided]]:
    """(logged, replayed) of each decision that differs; none: the log is explained by the policy."""
    for logged, replayed in zip(log.decided, replay(log), strict=True):
        if logged != replayed:
            yield logged, replayed


def to_json(value: Any) -> Any:
    """Of an event, a decision, or parameters: plain JSON."""
    if isinstance(value, float):
        return "inf" if value == math.inf else value
    if isinstance(value, (frozenset, set)):
        return sorted(value)
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    return value


def job_from_json(values: Mapping[str, Any]) -> QueuedJob:
    """The job that ``to_json`` wrote as this mapping."""
    return QueuedJob(**_values(QueuedJob, dict(values)))


def _record(line: dict[str, Any]) -> ev.Event | Decided:
    if "decide" in line:
        decisions = [_build(_DECISIONS, d.pop("decision"), d) for d in line["decisions"]]
        return Decided(_checked("float", "decide", line["decide"]), tuple(decisions))
    event: ev.Event = _build(_EVENTS, line.pop("event"), line)
    return event


def _build(kinds: Mapping[str, type[Any]], name: str, values: dict[str, Any]) -> Any:
    if "job" in values:
        values["job"] = job_from_json(values["job"])
    return kinds[name](**_values(kinds[name], values))


def _values(kind: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    """What ``kind`` is made of; a ValueError for a text in place of a number: it would fail far from its line."""
    out: dict[str, Any] = {}
    types = _TYPES[kind]
    for name, value in values.items():
        if value == "inf" and name.endswith("_s"):
            out[name] = math.inf
        elif name in _SETS:
            out[name] = frozenset(value)
        elif name in _TUPLES:
            out[name] = tuple(value)
        else:
            out[name] = _checked(types[name], name, value) if name in types else value
    return out


def _checked(of: str, name: str, value: Any) -> Any:
    if value is None and of.endswith(" | None"):
        return value
    plain = of.removesuffix(" | None")
    fits = isinstance(value, _PLAIN[plain]) and (plain == "bool" or not isinstance(value, bool))
    if not fits or (isinstance(value, float) and math.isnan(value)):
        raise ValueError(f"{name} is {value!r}, no {plain}")
    return value


def _params(values: dict[str, Any]) -> Params:
    known: dict[str, Any] = {name: math.inf if value == "inf" else value for name, value in values.items()}
    return Params(**known)
