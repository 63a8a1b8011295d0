"""How long prompts and answers are, in tokens: laws from which a length is drawn for each request."""

from __future__ import annotations

import math
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from inferbench_tasks.artifacts.plain_file import read_plain
from inferbench_tasks.contracts.spec import Spec
from inferbench_tasks.errors import InputError
from inferbench_tasks.problem import field_problems
from inferbench_tasks.registry import Registry

if TYPE_CHECKING:  # whoever checks a submission reads this module; few of them draw
    import numpy as np
    from numpy.typing import NDArray

Tokens = Annotated[int, Field(ge=1, le=1_000_000)]
Mean = Annotated[float, Field(ge=1, le=1_000_000)]


#: How long prompts and answers are where nobody says it.
INPUT_TOKENS, OUTPUT_TOKENS = 200, 64
#: The most that any length may be, and what a law that nobody cut has for its own.
_UNBOUNDED = 1_000_000
#: Of a file of lengths.
_MOST_BYTES = 256 << 20


class Lengths(Spec):
    """A law of lengths; what is drawn is whole and at least 1."""

    kind: str

    @property
    def most(self) -> int | None:
        """The longest that is drawn, tokens; None where that is not known."""
        return None

    @property
    def least(self) -> int:
        """No shorter one is drawn, tokens."""
        return 1

    @abstractmethod
    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """So many lengths, tokens."""


class Fixed(Lengths):
    """Each the same."""

    kind: Literal["fixed"]
    value: Tokens
    """Tokens."""

    @property
    def most(self) -> int:
        return self.value

    @property
    def least(self) -> int:
        return self.value

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        import numpy as np

        return np.full(count, self.value, np.int64)


class Uniform(Lengths):
    """Each whole number from ``min`` to ``max`` as often."""

    kind: Literal["uniform"]
    min: Tokens
    """The least, tokens."""
    max: Tokens
    """The most, tokens."""

    @model_validator(mode="after")
    def _ordered(self) -> Uniform:
        if self.max < self.min:
            raise ValueError(f"max {self.max} is below min {self.min}")
        return self

    @property
    def most(self) -> int:
        return self.max

    @property
    def least(self) -> int:
        return self.min

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return rng.integers(self.min, self.max, count, endpoint=True)


class _Bounded(Lengths):
    """``mean`` and ``cv`` (standard deviation / mean) are those of the law before it is cut to ``min`` and ``max``."""

    mean: Mean
    """Of the law, tokens."""
    cv: Annotated[float, Field(ge=0, le=10)] = 0.5
    """Its standard deviation by its mean."""
    min: Tokens = 1
    """What is below becomes this."""
    max: Tokens = _UNBOUNDED
    """What is above becomes this."""

    @property
    def most(self) -> int | None:
        return self.max if self.max < _UNBOUNDED else None

    @property
    def least(self) -> int:
        return self.min

    @model_validator(mode="after")
    def _ordered(self) -> _Bounded:
        if not self.min <= self.mean <= self.max:
            raise ValueError(f"mean {self.mean:g} is not between min {self.min} and max {self.max}")
        return self

    def _cut(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        import numpy as np

        return np.clip(np.rint(values), self.min, self.max).astype(np.int64)


class Normal(_Bounded):
    """Normal, rounded, then cut to the bounds."""

    kind: Literal["normal"]

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return self._cut(rng.normal(self.mean, self.cv * self.mean, count))


class Lognormal(_Bounded):
    """Lognormal, rounded, then cut to the bounds: sigma^2 = ln(1 + cv^2), mu = ln(mean) - sigma^2 / 2."""

    kind: Literal["lognormal"]

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        variance = math.log1p(self.cv**2)
        return self._cut(rng.lognormal(math.log(self.mean) - variance / 2, math.sqrt(variance), count))


class Empirical(Lengths):
    """Drawn from the numbers of a file, with replacement: a CSV's ``column``, or a file of a number a line."""

    kind: Literal["empirical"]
    path: str
    """The file."""
    column: str | None = None
    """Of a CSV with a head; without, each line is a number."""

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return rng.choice(self._numbers(), count)

    def _numbers(self) -> NDArray[np.int64]:
        import csv

        import numpy as np

        try:
            lines = read_plain(Path(self.path), _MOST_BYTES).decode().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"The lengths in {self.path} can't be read: {error}") from error
        first = 1
        if self.column is not None:
            rows = list(csv.DictReader(lines))
            if rows and self.column not in rows[0]:
                raise InputError(f"{self.path} has no column {self.column!r}; it has: {', '.join(rows[0])}")
            lines, first = [row[self.column] or "" for row in rows], 2
        for number, line in enumerate(lines, first):
            if not (line.strip().isdigit() and 1 <= int(line) <= 1_000_000):
                raise InputError(
                    f"{self.path}, line {number}: {line[:40]!r} is no length from 1 to 1,000,000"
                )
        if not lines:
            raise InputError(f"{self.path} has no lengths")
        return np.array([int(line) for line in lines], np.int64)


LENGTHS: Registry[type[Lengths]] = Registry(
    "law of lengths",
    "inferbench.lengths",
    {
        get_args(cls.model_fields["kind"].annotation)[0]: f"{__name__}:{cls.__name__}"
        for cls in (Fixed, Uniform, Normal, Lognormal, Empirical)
    },
)

#: In a submission: a law of ours by its ``kind``.
LengthsSpec = Annotated[Fixed | Uniform | Normal | Lognormal | Empirical, Field(discriminator="kind")]


def lengths_of(fields: dict[str, Any], where: str) -> Lengths:
    """The law that ``{"kind": ..., ...}`` describes; InputError names what is wrong and ``where``."""
    from pydantic import ValidationError

    try:
        return LENGTHS.load(str(fields.get("kind")), where).model_validate(fields)
    except ValidationError as error:
        raise InputError(f"{where}: {'; '.join(field_problems(error))}") from error
