"""The way from one format to another, over formats between them where there is no direct one."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint

from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.base import FORMATS, Format

log = logging.getLogger(__name__)

PRECISIONS = ("fp32", "fp16", "bf16", "int8")


@dataclass(frozen=True)
class Hop:
    """One conversion of a way: from a format to another, at a precision."""

    source: str
    target: str
    precision: str


def route(source: str, target: str, precision: str = "fp32", framework: str | None = None) -> tuple[Hop, ...]:
    """The shortest way; empty where nothing has to be done.

    All hops but one keep full precision; the one that reduces it comes as late as possible.
    Raises InputError, which names what is possible, where there is no way, and says why a package's format is none.
    """
    FORMATS.told(target, _asked_of, "convert.format")
    if source == target and precision == "fp32":
        return ()
    best = _search(source, target, precision)
    if best is None:
        raise _refusal(source, target, precision, framework or source)
    return best


def _asked_of(form: type[Format]) -> tuple[object, ...]:
    """What a search asks of a format."""
    return form.sources.items(), form.servable, form.given


def usable(say: Callable[[str], None] = log.debug) -> list[str]:
    """The formats that can be had. ``say`` is told why a package's can't: no way leads over it, and all others are."""
    kinds, refusals = _asked(FORMATS.entries)
    for refusal in refusals:
        say(refusal)
    return list(kinds)


@lru_cache(maxsize=1)  # a plan of 10,000 jobs searches as many ways
def _asked(entries: tuple[EntryPoint, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The formats that can be had beside these entries of packages, and why others can't: each is asked once."""
    kinds: list[str] = []
    refusals: list[str] = []
    for kind in FORMATS:
        try:
            FORMATS.told(kind, _asked_of)
        except InputError as error:
            refusals.append(str(error))
        else:
            kinds.append(kind)
    return tuple(kinds), tuple(refusals)


def _search(source: str, target: str, precision: str) -> tuple[Hop, ...] | None:
    """Breadth first over (format, whether the precision is reached); FIFO order keeps it deterministic."""
    start = (source, "fp32")
    queue: deque[tuple[tuple[str, str], tuple[Hop, ...]]] = deque([(start, ())])
    visited = {start}
    routes: list[tuple[Hop, ...]] = []
    sources = {kind: FORMATS.load(kind).sources for kind in usable()}
    while queue:
        (at, reached), hops = queue.popleft()
        if routes and len(hops) >= len(routes[0]):
            break
        for kind, ways in sources.items():
            for possible in ways.get(at, ()):
                if reached == "fp32" and possible not in ("fp32", precision):
                    continue
                if reached != "fp32" and possible != "fp32":
                    continue
                now = precision if reached != "fp32" else possible
                if (kind, now) == (target, precision):
                    routes.append((*hops, Hop(at, kind, possible)))
                elif (kind, now) not in visited:
                    visited.add((kind, now))
                    queue.append(((kind, now), (*hops, Hop(at, kind, possible))))
    if not routes:
        return None
    return max(routes, key=lambda hops: [hop.precision != "fp32" for hop in reversed(hops)])


def possible_precisions(source: str, target: str) -> tuple[str, ...]:
    """The precisions that some way from one format to another gives; fp32 alone for the same format."""
    return tuple(
        p for p in PRECISIONS if (source == target and p == "fp32") or _search(source, target, p) is not None
    )


def targets(source: str) -> dict[str, tuple[str, ...]]:
    """Every format that can be served and reached -> its precisions."""
    precisions_of = {
        kind: possible_precisions(source, kind) for kind in usable() if FORMATS.load(kind).servable
    }
    return {kind: precisions for kind, precisions in precisions_of.items() if precisions}


def _refusal(source: str, target: str, precision: str, name: str) -> InputError:
    here = possible_precisions(source, target)
    if here:
        return InputError(
            f"{name} -> {target} is not possible in {precision}; allowed: {', '.join(here)}",
            field="convert.precision",
        )
    known = ", ".join(f"{kind} ({', '.join(ps)})" for kind, ps in targets(source).items())
    why: list[str] = []  # the way may have led over one of these
    usable(why.append)
    return InputError(
        "; ".join([f"{name} can't be converted to {target}", f"allowed: {known or 'nothing'}", *why]),
        field="convert.format",
    )
