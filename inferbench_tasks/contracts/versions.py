"""Versions, and constraints on them in the notation of npm and pip: ``^1.2``, ``~1.2.3``, ``>=1.20,<1.30``, ``1.x``.

A version is one of PEP 440 (``packaging.version``), which semantic ones with ``-rc.1`` at their end are, too. A
constraint is one or more terms that must all hold (commas or blanks between them), alternatives with ``||`` between.

    ^1.2.3  >=1.2.3 <2.0.0     ^0.2.3  >=0.2.3 <0.3.0     ^0.0.3  >=0.0.3 <0.0.4     ^1.2  >=1.2.0 <2.0.0
    ~1.2.3  >=1.2.3 <1.3.0     ~1.2    >=1.2.0 <1.3.0     ~1      >=1.0.0 <2.0.0
    1.2.x   >=1.2.0 <1.3.0     1.x     >=1.0.0 <2.0.0     1.2     as 1.2.x            1.2.3  that one
    >1.2    >=1.3.0            <=1.2   <1.3.0             *       any

The table is that of node-semver (https://github.com/npm/node-semver#ranges), and so is the rule for versions before a
release (``1.2.0rc1``): one is allowed only where a term names such a version of the same release.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

MAX_LENGTH = 200
ALLOWED_VERSION = "a version is three numbers such as 1.2.0, or 1.2.0-rc.1 before a release"
ALLOWED_CONSTRAINT = (
    "allowed are ^1.2, ~1.2.3, >=1.20,<1.30, 1.x, 1.2.3, * and alternatives with || between them"
)

_SUFFIX = r"(?:[-.]?(?:alpha|beta|a|b|rc)[-.]?[0-9]{0,9})?"
_SEMANTIC = re.compile(rf"(?:0|[1-9][0-9]{{0,8}})(?:\.(?:0|[1-9][0-9]{{0,8}})){{2}}{_SUFFIX}")
_TERM = re.compile(
    r"(?P<operator>\^|~|>=|<=|==|=|!=|>|<)?v?"
    rf"(?P<numbers>(?:[0-9]{{1,9}}|[xX*])(?:\.(?:[0-9]{{1,9}}|[xX*])){{0,3}})(?P<suffix>{_SUFFIX})"
)
_BLANKS_AFTER_OPERATOR = re.compile(r"([\^~<>=!])\s+")
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?=[A-Za-z0-9_-]))*)\s*(?:@\s*(?P<pinned>.+)|(?P<bound>[\^~<>=!].*))?"
)
_COMPARE: dict[str, Callable[[Version, Version], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def semantic_version(text: str) -> str:
    """The version in its normal form (``1.2.0-rc.1`` is ``1.2.0rc1``); ValueError, with what is allowed."""
    if not _SEMANTIC.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is no version; {ALLOWED_VERSION}")
    return str(Version(text))


def any_version(text: str) -> str:
    """The normal form of a framework's version, which may have other than three numbers (``2.13``); ValueError."""
    try:
        version = Version(text) if len(text) <= MAX_LENGTH else None
    except InvalidVersion:
        version = None
    if version is None or version.local or version.epoch:
        raise ValueError(
            f"{text[:60]!r} is no version; numbers with dots are allowed, such as 1.23.2 or 2.0rc1"
        )
    return str(version)


@dataclass(frozen=True)
class _Bound:
    operator: str
    version: Version

    def holds(self, version: Version) -> bool:
        return _COMPARE[self.operator](version, self.version)


@dataclass(frozen=True)
class Constraint:
    """``text`` as it was written; made by ``Constraint.parse``."""

    text: str
    alternatives: tuple[tuple[_Bound, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """The constraint that a text is; ValueError, which says what is allowed."""
        if len(text) > MAX_LENGTH:
            raise ValueError(f"a constraint has at most {MAX_LENGTH} characters; {ALLOWED_CONSTRAINT}")
        alternatives = []
        for part in _BLANKS_AFTER_OPERATOR.sub(r"\1", text).split("||"):
            terms = [term for term in re.split(r"[,\s]", part.strip()) if term]
            if not terms or part.strip().startswith(",") or part.strip().endswith(","):
                raise ValueError(f"{text[:60]!r} is no constraint on a version; {ALLOWED_CONSTRAINT}")
            alternatives.append(tuple(bound for term in terms for bound in _bounds(term, text)))
        return cls(text, tuple(alternatives))

    def allows(self, version: Version) -> bool:
        """Whether that version fits; what a build added to it (``2.13.0+cpu``) does not count."""
        public = Version(version.public)
        return any(_all_hold(bounds, public) for bounds in self.alternatives)

    @property
    def takes_any(self) -> bool:
        """Whether every version fits, as ``*`` says."""
        return any(not bounds for bounds in self.alternatives)

    def newest(self, versions: Iterable[str]) -> str | None:
        """The newest of these that fits; None where none does."""
        fitting = [text for text in versions if self.allows(Version(text))]
        return max(fitting, key=Version, default=None)


@dataclass(frozen=True)
class Requirement:
    """``onnxruntime>=1.20``, ``digits@^1.2`` or a bare name, of which any version fits."""

    name: str
    constraint: Constraint

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """ValueError, which says what is allowed."""
        match = _REQUIREMENT.fullmatch(text.strip()) if len(text) <= MAX_LENGTH else None
        if match is None:
            raise ValueError(
                f"{text[:60]!r} is no name with a constraint; allowed are NAME, NAME@^1.2 and NAME>=1.20,<1.30"
            )
        return cls(match["name"], Constraint.parse(match["pinned"] or match["bound"] or "*"))


def same_version(one: str, other: str) -> bool:
    """Whether two versions are the same as far as both are told: ``2.13.0``, of a manifest, is any build of it."""
    builds = [version.partition("+") for version in (one, other)]
    same_build = builds[0][2] == builds[1][2] or not all(build for _, _, build in builds)
    return builds[0][0] == builds[1][0] and same_build


def readable(requirement: str) -> str:
    """The text, if it is a requirement; ValueError, which says what is allowed."""
    Requirement.parse(requirement)
    return requirement


def newest_first(versions: Iterable[str]) -> list[str]:
    """The versions in their order, the newest first."""
    return sorted(versions, key=Version, reverse=True)


def _all_hold(bounds: tuple[_Bound, ...], version: Version) -> bool:
    if not all(bound.holds(version) for bound in bounds):
        return False
    return not version.is_prerelease or any(
        bound.version.is_prerelease and _three(bound.version) == _three(version) for bound in bounds
    )


def _three(version: Version) -> tuple[int, int, int]:
    return version.major, version.minor, version.micro


def _bounds(term: str, whole: str) -> list[_Bound]:
    """What one term asks for, as bounds that must all hold; [] where any version will do."""
    match = _TERM.fullmatch(term)
    if match is None:
        raise ValueError(
            f"{term[:60]!r} in {whole[:60]!r} is no constraint on a version; {ALLOWED_CONSTRAINT}"
        )
    kind, parts = match["operator"] or "=", match["numbers"].split(".")
    numbers = [int(part) for part in parts if part.isdigit()]
    wild = len(numbers) < len(parts)
    if wild and any(part.isdigit() for part in parts[len(numbers) :]):
        raise ValueError(f"{term[:60]!r}: no number may stand behind x or *; {ALLOWED_CONSTRAINT}")
    whole_version = len(numbers) >= 3 and not wild
    if match["suffix"] and not whole_version:
        raise ValueError(
            f"{term[:60]!r}: what comes before a release needs three numbers, such as 1.2.0-rc.1"
        )
    if not numbers:
        if kind in ("=", "==", "^", "~", ">="):
            return []
        raise ValueError(f"{term[:60]!r}: {kind} needs a number; {ALLOWED_CONSTRAINT}")
    low = Version(".".join(map(str, [*numbers, 0, 0][: max(3, len(numbers))])) + match["suffix"])
    if kind in ("^", "~"):
        return [_Bound(">=", low), _Bound("<", _next(numbers, _grows(kind, numbers)))]
    if kind in ("=", "=="):
        after = _Bound("<", _next(numbers, len(numbers) - 1))
        return [_Bound("==", low)] if whole_version else [_Bound(">=", low), after]
    if kind == "!=" and not whole_version:
        raise ValueError(f"{term[:60]!r}: != needs a whole version, such as !=1.2.3")
    if kind in (">", "<=") and not whole_version:
        return [_Bound(">=" if kind == ">" else "<", _next(numbers, len(numbers) - 1))]
    return [_Bound(kind, low)]


def _grows(kind: str, numbers: list[int]) -> int:
    """The place of the number that may not grow: of ``^`` the first that is not 0, of ``~`` the second."""
    if kind == "~":
        return min(1, len(numbers) - 1)
    return next((place for place, number in enumerate(numbers) if number), len(numbers) - 1)


def _next(numbers: list[int], place: int) -> Version:
    return Version(".".join(map(str, [*numbers[:place], numbers[place] + 1])))
