"""Whether a percentile keeps its bound: yes, no, or undecided, by the criterion of LoadGen's early stopping.

A percentile is a sample, and a true one just above its bound is seen below it in a third of all runs. So the requests
over the bound are counted, and one of two binomial bounds must exclude the contrary at 99% confidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.exceedances import spread_of

#: LoadGen's.
CONFIDENCE = 0.99
#: No run is longer than so many requests.
_MOST_REQUESTS = 1e9


def least_to_keep(share: float) -> int:
    """Without so many requests not even a load of which none is over the bound shows that at most ``share`` are."""
    return int(np.ceil(np.log(1 - CONFIDENCE) / np.log1p(-share))) if 0 < share < 1 else 1


@dataclass(frozen=True)
class Decision:
    """``met``: None while undecided. ``over``: requests over the bound or failed, of ``requests``, which are ``worth``
    so many independent ones.

    ``needed_requests``: about how many would decide if they went on like these; None where it is decided, and where no
    number would, which ``reason`` then says.
    """

    met: bool | None
    over: int
    requests: int
    needed_requests: int | None = None
    reason: str | None = None
    worth: float = 0.0


def worth_of(over: NDArray[Any]) -> tuple[float, str | None]:
    """How many independent requests these are worth to the share of those that are ``over``, in the order of time.

    And why that is the least that it can be, where nobody can tell how they come (``exceedances``): all of those over
    may then have been one cluster. 0.0 of none.
    """
    spread = spread_of(over)
    inflation = max(1.0, spread.inflation if spread.reason is None else int(np.count_nonzero(over)))
    return len(over) / inflation, spread.reason


def decide(over: NDArray[Any], quantile: float) -> Decision:
    """Whether at most 1 - ``quantile`` of all requests are over the bound; ``over``: which were, in the order of time.

    Requests in clusters count as the independent ones that they are worth, see ``exceedances``.
    """
    requests, count = len(over), int(np.count_nonzero(over))
    if not requests:
        return Decision(None, 0, 0, reason="no request was measured")
    worth, unknown = worth_of(over)
    share = count / requests
    met = _decided(share, worth, quantile)
    if met is not None:
        return Decision(met, count, requests, worth=worth)
    if unknown is not None:
        why = f"of the requests over the bound: {unknown}"
        return Decision(None, count, requests, reason=why, worth=worth)
    needed = _needed(share, worth, quantile)
    if needed is None:
        why = "it is so close to the bound that no run would decide"
        return Decision(None, count, requests, reason=why, worth=worth)
    return Decision(None, count, requests, int(np.ceil(needed / worth * requests)), worth=worth)


def _decided(share: float, worth: float, quantile: float) -> bool | None:
    """By the binomial law of so many independent requests (the regularised beta function takes fractions too)."""
    from scipy.special import betainc

    over = share * worth
    if betainc(worth - over, over + 1, quantile) <= 1 - CONFIDENCE if over < worth else False:
        return True
    if over > 0 and betainc(over, worth - over + 1, 1 - quantile) <= 1 - CONFIDENCE:
        return False
    return None


def _needed(share: float, worth: float, quantile: float) -> float | None:
    """The number of independent requests that would decide at that share of requests over the bound."""
    enough = worth
    while _decided(share, enough, quantile) is None:
        enough *= 2
        if enough > _MOST_REQUESTS:
            return None
    less = enough / 2
    while enough - less > max(1.0, 1e-3 * enough):
        middle = (less + enough) / 2
        less, enough = (middle, enough) if _decided(share, middle, quantile) is None else (less, middle)
    return enough
