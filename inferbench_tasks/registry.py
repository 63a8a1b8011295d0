"""Variants by name: ``kind`` in the YAML -> a class; ours by module path, third parties' by entry point."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Generic, TypeVar, cast

from inferbench_tasks.errors import InferBenchError, InputError, UnknownKindError

T = TypeVar("T")
R = TypeVar("R")


class Registry(Generic[T]):
    """The known variants of one concept; a variant is imported when it is first asked for.

    ``what`` names the concept in messages ("serving backend"), ``group`` is the entry-point group of
    third parties ("inferbench.backends"), ``built_in`` maps a kind to "module:attribute" (or finds out
    that mapping when it is first needed). A built-in kind can't be taken over by a third party.
    """

    def __init__(
        self, what: str, group: str, built_in: Mapping[str, str] | Callable[[], Mapping[str, str]]
    ) -> None:
        self.what = what
        self.group = group
        self._listed = built_in
        self._places: dict[str, tuple[ModuleType, str]] = {}

    @cached_property
    def _built_in(self) -> dict[str, str]:
        return dict(self._listed() if callable(self._listed) else self._listed)

    @cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        plugins: dict[str, EntryPoint] = {}
        for point in entry_points(group=self.group):
            if point.name in self._built_in:
                continue
            other = plugins.setdefault(point.name, point)
            if other.value != point.value:
                raise InputError(
                    f"Two packages register the {self.what} {point.name!r}: {other.value} and {point.value}; "
                    f"uninstall one of them"
                )
        return plugins

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._built_in, *self._plugins}))

    def __contains__(self, kind: object) -> bool:
        return kind in self._built_in or kind in self._plugins

    @property
    def entries(self) -> tuple[EntryPoint, ...]:
        """Those of third parties: what was found out of their variants holds as long as these are the same."""
        return tuple(self._plugins.values())

    def origin(self, kind: str) -> str:
        """Where a kind comes from: "built-in" or the distribution that registers it."""
        if kind in self._built_in:
            return "built-in"
        self._require(kind)
        dist = self._plugins[kind].dist
        return f"{dist.name} {dist.version}" if dist else "unknown"

    def load(self, kind: str, where: str = "") -> T:
        """The variant of that kind.

        Raises UnknownKindError, which lists the known kinds, and InputError if a third party's
        variant can't be imported. ``where`` ("serve.backend (x.yaml:12)") goes into the message.
        """
        if kind in self._places:  # asked for 100,000 times by a plan of 10,000 jobs
            module, attribute = self._places[kind]
            return cast(T, getattr(module, attribute))
        self._require(kind, where)
        if kind in self._built_in:
            name, _, attribute = self._built_in[kind].partition(":")
            module = importlib.import_module(name)
            self._places[kind] = module, attribute
            return cast(T, getattr(module, attribute))
        try:
            return cast(T, self._plugins[kind].load())
        except Exception as error:  # a plugin may fail in any way; ours must name it and go on
            raise InputError(
                f"The {self.what} {kind!r} of {self.origin(kind)} can't be imported: "
                f"{type(error).__name__}: {error}"
            ) from error

    def told(self, kind: str, tell: Callable[[T], R], where: str = "") -> R:
        """What ``tell`` says of the variant of that kind: for lists, in which one that is broken hides no other.

        Raises what ``load`` does, and InputError, which names the package and its entry, where ``tell`` fails because a
        third party's variant is not what it has to be. A failure of ours is let through.
        """
        variant = self.load(kind, where)
        if kind in self._built_in:
            return tell(variant)
        try:
            return tell(variant)
        except Exception as error:  # whatever it lacks; ours must name it and go on
            why = str(error) if isinstance(error, InferBenchError) else f"{type(error).__name__}: {error}"
            raise InputError(
                f"The {self.what} {kind!r} of {self.origin(kind)} ({self._plugins[kind].value}) can't be used: {why}"
            ) from error

    def _require(self, kind: str, where: str = "") -> None:
        if kind not in self:
            at = f" at {where}" if where else ""
            raise UnknownKindError(f"Unknown {self.what} {kind!r}{at}; known: {', '.join(self)}")


def derived(variant: R, base: type) -> R:
    """The variant, which has to be a class that derives from ``base``: for what ``Registry.told`` tells. InputError."""
    what: object = variant
    if not (isinstance(what, type) and issubclass(what, base)):
        raise InputError(f"it is no {base.__name__} ({base.__module__})")
    return variant
