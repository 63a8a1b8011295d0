"""What a regression is looked for in: a series of sessions of one of the figures that nights watch.

A *series* is one figure of one job (by digest) on one device. A *session* (a night) is a pair of sides,
baseline and candidate, run in turns on that device. Both sides see the same machine at nearly the same time, so
the ratio candidate / baseline of a session is free of what the whole machine does that night.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property


@dataclass(frozen=True)
class SeriesKey:
    """``digest``: of what the job measures; ``device``: the product's name, else cpu or gpu.

    ``cores``: the logical cores that the job had (on a GPU they feed it); None where results don't say.
    """

    name: str
    digest: str
    device: str
    figure: str
    cores: float | None = None

    @property
    def id(self) -> str:
        """Unique, and fit to stand in a file's name or an anchor."""
        text = self.device if self.cores is None else f"{self.device} {self.cores:g} cores"
        device = "".join(c if c.isalnum() else "-" for c in text)
        return f"{self.name}-{self.digest[:12]}-{device}-{self.figure}"


@dataclass(frozen=True)
class Session:
    """One session of one series: a figure per valid run, in the order they were run, all above zero."""

    id: str
    at: datetime
    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    #: Which code the baseline was; another one starts the history of ratios again.
    baseline_id: str = ""

    @cached_property
    def effect(self) -> float:
        """ln(candidate / baseline) of the whole session, see ``ratio.effect``."""
        from inferbench_tasks.regression.ratio import effect

        return effect(self.log_ratios())

    @cached_property
    def variance(self) -> float:
        """The sample variance of the pairs' ln ratios; of at least two pairs."""
        return statistics.variance(self.log_ratios())

    @cached_property
    def level(self) -> float:
        """ln of the baseline's figure, as robust as ``effect``."""
        from inferbench_tasks.regression.ratio import effect

        return effect([math.log(value) for value in self.baseline])

    def log_ratios(self) -> list[float]:
        """ln(candidate / baseline) of each pair, in order; a side's surplus runs are left out."""
        return [math.log(c / b) for b, c in zip(self.baseline, self.candidate, strict=False)]


def worse(effect: float, *, higher: bool) -> bool:
    """Whether an effect (ln of candidate / baseline) is in the bad direction; ``higher``: more is better."""
    return effect < 0 if higher else effect > 0


def percent(effect: float) -> float:
    """ln ratio -> per cent of change."""
    return 100 * math.expm1(effect)
