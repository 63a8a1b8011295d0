"""Dotted paths (``load.arrivals.rate_rps``) into nested mappings: how a value is read, set and listed by them.

A key that holds a dot itself can't be told from two keys; documents here have none where paths are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def parts(path: str) -> tuple[str, ...]:
    """The keys of a path, from the outermost on."""
    return tuple(path.split("."))


def last(path: str) -> str:
    """The innermost key, which names the value."""
    return path.rpartition(".")[2]


def contains(group: str, path: str) -> bool:
    """Whether ``path`` is ``group`` or lies below it."""
    return path == group or path.startswith(group + ".")


def outermost(paths: Iterable[str]) -> list[str]:
    """Each path once, in their order, without those that lie below another of them."""
    once = dict.fromkeys(paths)
    return [path for path in once if not any(group in once for group in _groups(path))]


def _groups(path: str) -> Iterator[str]:
    """All that it lies below."""
    at = path.find(".")
    while at >= 0:
        yield path[:at]
        at = path.find(".", at + 1)


def value_at(document: Any, path: str) -> Any:
    """The value at a path; None where a key is missing or what stands in its place is no mapping."""
    value = document
    for key in path.split("."):
        # Nearly all are plain ones, and the test of any mapping takes longer than all the rest.
        if type(value) is not dict and not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def set_at(document: dict[str, Any], path: str, value: Any) -> None:
    """Put a value at a path; a section on the way that is absent, or is no mapping, is begun anew."""
    *sections, name = path.split(".")
    for key in sections:
        if not isinstance(document.get(key), dict):
            document[key] = {}
        document = document[key]
    document[name] = value


def walk(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value) of everything in nested mappings in their order, each mapping before what is in it.

    ``prefix`` is put before each path as it is.
    """
    for key, value in document.items():
        path = f"{prefix}{key}"
        yield path, value
        if isinstance(value, Mapping):
            yield from walk(value, f"{path}.")


def flatten(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one: dotted path -> value; an empty mapping has none."""
    return {path: value for path, value in walk(document, prefix) if not isinstance(value, Mapping)}
