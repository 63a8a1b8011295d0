"""A part of an evaluation's samples: ``1/2`` is the first of two, which another worker may ask beside the second."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from numpy.typing import NDArray
from pydantic import AfterValidator, Field

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

#: ``auto``: as many as it takes for each one's samples to fit; a number in its place once a submission was read.
AUTO: Literal["auto"] = "auto"
PartsCount = Annotated[int, Field(ge=2, le=MOST_PARTS)] | Literal["auto"]


def in_parts(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The jobs of a submission with ``evaluate.parts``, as plain data: one for each part; itself alone without.

    What is no number of parts stays, for the schema to tell.
    """
    evaluate = data.get("evaluate")
    if not isinstance(evaluate, dict):
        return [data]
    of = evaluate.get("parts")
    if type(of) is not int or not 2 <= of <= MOST_PARTS or evaluate.get("part") is not None:
        return [data]
    rest = {name: value for name, value in evaluate.items() if name != "parts"}
    return [{**data, "evaluate": {**rest, "part": str(Part(number, of))}} for number in range(1, of + 1)]
