"""A part of an evaluation's samples: ``1/2`` is the first of two, which another worker may ask beside the second."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from numpy.typing import NDArray
from pydantic import AfterValidator

MOST_PARTS = 1000


@dataclass(frozen=True)
class Part:
    """Number ``number``, from 1 on, of ``of`` parts."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def read(cls, text: str) -> Part:
        """ValueError for what is no part."""
        found = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
        number, of = (int(each) for each in found.groups()) if found else (0, 0)
        if not 1 <= number <= of or not 2 <= of <= MOST_PARTS:
            raise ValueError(
                f"a part is a number of so many, 1/2 and 2/2, at most {MOST_PARTS}; not {text!r}"
            )
        return cls(number, of)

    def of_rows(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Every so many-th row: all parts are of a size but for one, and alike where the data are sorted."""
        return rows[self.number - 1 :: self.of]


def _read(text: str) -> str:
    return str(Part.read(text))


PartText = Annotated[str, AfterValidator(_read)]
