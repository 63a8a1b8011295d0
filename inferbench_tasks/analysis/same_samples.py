"""Two shares of right answers to the very same samples: they are compared in pairs, which tell more than two shares do.

What is hard for one is mostly hard for the other. Where a samples were answered right by both, b by the first alone and
c by the second alone, ln((a + c) / (a + b)) has the variance (b + c) / ((a + b) (a + c)): the delta method, with the
covariance of both shares (J.-m. Nam, W. C. Blackwelder, Statistics in Medicine 21, 2002). One is added to b and to c,
as in the adjusted interval of ``quality.paired`` (D. G. Bonett, R. M. Price, J. of Educational and Behavioral
Statistics 37, 2012): that none of so many differ is no proof that none would.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.dotted import value_at

#: Where a result says which of its samples were answered right, see ``stages.served_accuracy``.
PATH = "extensions.accuracy"


@dataclass(frozen=True)
class Answers:
    """``digest``: of the samples, as they were sent and in their order, with their labels; ``right``: a bit of each."""

    digest: str
    samples: int
    right: int


def answers_of(result: Mapping[str, Any], samples: int) -> Answers | None:
    """Of a result as plain nested mappings that asked so many; None of one that doesn't say."""
    told = value_at(result, PATH) or {}
    digest, right = told.get("samples_digest"), told.get("right")
    if not digest or right is None:
        return None
    return Answers(str(digest), samples, int(right, 16))


def paired_error(first: Answers | None, second: Answers | None) -> float | None:
    """Standard error of the logarithm of the second share over the first; None where they are no pairs."""
    if first is None or second is None:
        return None
    if (first.digest, first.samples) != (second.digest, second.samples):
        return None
    both = (first.right & second.right).bit_count()
    only_first, only_second = (
        (one.right & ~other.right).bit_count() + 1 for one, other in ((first, second), (second, first))
    )
    return math.sqrt((only_first + only_second) / ((both + only_first) * (both + only_second)))
