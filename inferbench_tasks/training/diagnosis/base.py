"""What a rule says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

from inferbench_tasks.perfdb.documents import Document
from inferbench_tasks.training.diagnosis.observation import Observation
from inferbench_tasks.training.imported.rows import Import


class Cause(Document):
    """``sentence``: what it is. ``evidence``: the figures, with where they stand. ``remedy``: None where there is none.

    ``kind``: a ``cause`` holds the training up, a ``comparison`` sets it beside another, ``wrong`` is a figure that is
    not to be believed. ``cost_s``: what it takes of a step, seconds; None where that can't be told. ``at_most``: that
    is no more than a bound. ``changes``: the remedy as fields of the submission, empty where no field mends it.
    ``gain_s``: what they are predicted to save of a step, seconds. ``rank``: the one that it is about, where it is one.
    """

    rule: str
    kind: Literal["cause", "comparison", "wrong"]
    sentence: str
    evidence: list[str]
    remedy: str | None = None
    cost_s: float | None = None
    at_most: bool = False
    changes: dict[str, Any] = {}
    gain_s: float | None = None
    rank: int | None = None


#: A rule for imported tables and logs.
ImportRule = Callable[[Import], Iterator[Cause]]
#: A rule for a run that was measured here.
RunRule = Callable[[Observation], Iterator[Cause]]
#: What costs less of a step than this is no cause: steps of one training differ by as much from run to run.
LEAST_SHARE = 0.05
