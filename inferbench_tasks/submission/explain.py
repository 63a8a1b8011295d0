"""Pydantic's errors in plain English: what is wrong, what was given, what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from inferbench_tasks.dotted import parts
from inferbench_tasks.problem import MAX_PROBLEMS, FieldPath, did_you_mean, nearest, show
from inferbench_tasks.submission.base import LEAST_BLOCKS, MOST_BLOCKS, SubmissionBase
from inferbench_tasks.submission.fields import DISCRIMINATORS, Slot, all_paths, find_slot, kinds_at

#: The slot at a path of what was validated; asked of the same few paths again and again where many keys are unknown.
FindSlot = Callable[[FieldPath], Slot | None]
#: What a kind is called where there are several.
KIND_NAMES = {
    "model": "kind of model",
    "model.family": "family of canonical models",
    "load.arrivals": "arrival process",
}


def explain(
    error: ValidationError,
    data: dict[str, Any],
    schema: type[SubmissionBase],
    source: Mapping[FieldPath, str] = MappingProxyType({}),
) -> list[tuple[FieldPath, str]]:
    """Each problem as (path, message), in pydantic's order; ``data`` is what was validated, against ``schema``.

    ``source`` has the text of numbers as the user wrote them, by path.
    """
    find: FindSlot = cache(lambda path: find_slot(data, path, schema))
    messages: dict[FieldPath, str] = {}
    types: dict[FieldPath, str] = {}
    for number, item in enumerate(error.errors(include_url=False)):
        path = _path(item["loc"], data, find, missing=item["type"] == "missing")
        if item["type"] in ("union_tag_invalid", "union_tag_not_found"):
            path, message = _unknown_kind(path, data, find, hints=number < MAX_PROBLEMS)
        else:
            message = _message(item, path, data, schema, find, source.get(path), hints=number < MAX_PROBLEMS)
        # Each member of a union refuses the value; the one that has words of its own knew its kind.
        if path not in messages or item["type"] == "value_error" != types[path]:
            messages[path], types[path] = message, item["type"]
    for path in _of_what_is_inside(types):
        del messages[path]
    misspelt: dict[FieldPath, list[str]] = {}
    for path, text in messages.items():
        if text.startswith("unknown key; did you mean "):
            misspelt.setdefault(path[:-1], []).append(text)
    return [(path, text) for path, text in messages.items() if not _is_meant(path, text, misspelt)]


def _of_what_is_inside(types: Mapping[FieldPath, str]) -> list[FieldPath]:
    """Lists and mappings that were refused only because something in them, which has a message of its own, was: the
    list became too short without it, or the mapping is not what another member of a union takes.
    """
    around = {path[:end] for path in types for end in range(len(path))}
    return [path for path in around & types.keys() if types[path].endswith(("too_short", "_type"))]


def _is_meant(path: FieldPath, message: str, misspelt: dict[FieldPath, list[str]]) -> bool:
    """Whether a missing key is there under a misspelt name, which has a message of its own."""
    if not message.startswith("missing"):
        return False
    beside = misspelt.get(path[:-1], ())
    return any(text.startswith(f"unknown key; did you mean {path[-1]!r}?") for text in beside)


def _path(loc: tuple[str | int, ...], data: Any, find: FindSlot, *, missing: bool) -> FieldPath:
    """Pydantic's location without the names of union members and the sweep's inner fields."""
    path: list[str | int] = []
    value, last = data, len(loc) - 1
    tags: list[Any] = []
    for index, part in enumerate(loc):
        if isinstance(value, dict) and part in tags and not (missing and index == last):
            tags = tags[tags.index(part) + 1 :]
        elif isinstance(value, dict) and part in value:
            path.append(part)
            value = value[part]
            tags = [value.get(name) for name in DISCRIMINATORS] if _has_kinds(path, find, value) else []
        elif isinstance(value, (list, tuple)) and isinstance(part, int) and part < len(value):
            path.append(part)
            value = value[part]
        elif missing and index == last:
            path.append(part)
    return tuple(path)


def _has_kinds(path: list[str | int], find: FindSlot, value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    slot = find(tuple(path))
    return slot is not None and len(slot.models()) > 1


def _unknown_kind(
    path: FieldPath, data: dict[str, Any], find: FindSlot, *, hints: bool
) -> tuple[FieldPath, str]:
    slot, value = find(path), _at(data, path)
    if slot is None:
        return path, "unknown kind"
    name, by_kind = kinds_at(slot, value)
    what = KIND_NAMES.get(".".join(map(str, path)) + (f".{name}" if name != "kind" else ""), name)
    known = ", ".join(by_kind)
    if not isinstance(value, dict) or name not in value:
        return (*path, name), f"missing; the {what}, one of: {known}"
    kind = value[name]
    hint = did_you_mean(kind, by_kind) if hints and isinstance(kind, str) else ""
    return (*path, name), f"unknown {what} {show(kind)}{hint or ';'} known: {known}"


def _message(
    item: Any,
    path: FieldPath,
    data: dict[str, Any],
    schema: type[SubmissionBase],
    find: FindSlot,
    written: str | None,
    *,
    hints: bool,
) -> str:
    kind, value = item["type"], item["input"]
    if path[:1] == ("sweep",):
        return _sweep_message(item, path)
    if kind == "value_error":
        return str(item["ctx"]["error"])
    if kind == "extra_forbidden":
        return _unknown_key(path, data, schema, find, hints=hints)
    slot = find(path)
    if kind == "missing":
        allowed = f"; {slot.describe()}" if slot and slot.describe() else ""
        return f"missing{allowed}"
    if slot is None:
        return f"{item['msg']}; got {show(value)}"
    got = f"a list of {len(value):,}" if kind == "too_long" else written or show(value)
    return f"must be {slot.describe()}; got {got}{_remedy(slot, value, written) if hints else ''}"


def _unknown_key(
    path: FieldPath, data: dict[str, Any], schema: type[SubmissionBase], find: FindSlot, *, hints: bool
) -> str:
    key, value = str(path[-1]), _at(data, path[:-1])
    parent = find(path[:-1]) or Slot(schema)
    model = parent.model_for(value)
    allowed = list(model.model_fields) if model else []
    if not hints:
        return f"unknown key; allowed: {', '.join(allowed)}"
    name, by_kind = kinds_at(parent, None)
    others = [kind for kind, other in by_kind.items() if key in other.model_fields]
    leaves = {p.rsplit(".", 1)[-1]: p for p in sorted(all_paths(schema), reverse=True)}
    if "." in key and key in all_paths(schema):
        nested = ": {".join(parts(key))
        hint = f"; dotted paths are for the sweep, write it nested ({nested}: ...{'}' * key.count('.')});"
    elif others:
        hint = f"; it belongs to {name} {', '.join(others)}, not to {show(value.get(name))};"
    elif key in leaves:
        hint = f"; did you mean {leaves[key]!r}?"
    else:
        hint = did_you_mean(key, [a for a in allowed if a not in value])
        if not hint and (near := nearest(key, leaves)):
            hint = f"; did you mean {leaves[near]!r}?"
    return f"unknown key{hint or ';'} allowed: {', '.join(allowed)}"


def _sweep_message(item: Any, path: FieldPath) -> str:
    kind, value = item["type"], item["input"]
    if kind == "value_error":
        return str(item["ctx"]["error"])
    if len(path) == 1:
        return f"must be a mapping of dotted paths to lists of values; got {show(value)}"
    if path[1] == "order":
        return f"must be listed or interleaved; got {show(value)}"
    if path[1] == "blocks":
        return f"must be an even number from {LEAST_BLOCKS} to {MOST_BLOCKS}; got {show(value)}"
    if path[1] == "zip" and not (len(path) > 2 and isinstance(path[-1], str)):
        return f"must be a mapping of dotted paths to lists of values, or a list of such mappings; got {show(value)}"
    if kind == "too_long":
        return f"must be a list of at most 1,000 values; got {len(value):,}"
    return f"must be a list of values to try, at least one; got {show(value)}"


def _remedy(slot: Slot, value: Any, written: str | None) -> str:
    types = {member.annotation for member in slot.members()}
    if isinstance(value, str):
        if types & {int, float} and _is_number(value):
            return "; take the quotes away"
        values = [str(v) for m in slot.members() for v in getattr(m.annotation, "__args__", ())]
        near = nearest(value, values)
        return f"; did you mean {near!r}?" if near else ""
    if str in types and isinstance(value, (int, float)):
        return f"; put it in quotes: '{written or show(value)}'"
    if int in types and isinstance(value, float) and value.is_integer():
        return f"; write {int(value)}"
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _at(data: Any, path: FieldPath) -> Any:
    for part in path:
        data = data[part]
    return data
