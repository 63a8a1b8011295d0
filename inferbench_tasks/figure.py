"""A figure: one number of a run, with all that is known of it wherever it is listed, sorted, judged or shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from inferbench_tasks.dotted import value_at

Better = Literal["lower", "higher"]
#: Where figures are shown: the report's table of runs; the terminal's after a run (``wide``: where there is room); the
#: list of results; beside the leaderboard's figure; the charts over a sweep; the Pareto table; a replay's judgement;
#: the nights' series; the fields of the form that takes a submission.
View = Literal["report", "terminal", "wide", "list", "board", "sweep", "pareto", "replay", "night", "form"]


@dataclass(frozen=True)
class Figure:
    """One number of a run.

    ``path``: where it stands below a result's ``summary``. ``unit``: of the stored value ("" for a plain number).
    ``better``: which way; None where neither is, so that it is shown and never bounded. ``formula``: how it is made.
    """

    name: str
    path: str
    unit: str
    title: str
    better: Better | None
    formula: str
    #: In a column's head and in sentences: "p99", "CPU"; ``title`` unless given.
    noun: str = ""
    #: A column's whole head, where noun and unit would say a thing twice.
    head: str = ""
    #: What people see is the stored value times the factor, in that unit; "%" for shares and rates.
    display_unit: str | None = None
    display_factor: float = 1.0
    #: In per cent, and no part of a whole: as many words may be wrong as there are and more.
    above_one: bool = False
    #: The same of a sample, for a figure of a request: by it requests of different sizes can be compared.
    per_sample: str | None = None
    #: Where its 95% interval stands below the summary, for a figure that has one within a run.
    interval: str | None = None
    #: That interval is no error of chance but what a search did not look at: repeated, it ends at the same two bounds.
    bracketed: bool = False
    #: Where the number of single events behind it stands below the summary: a rate of few of them is known badly.
    counted: str | None = None
    #: It is a share of requests: where their number stands below the summary. One of 100 is hardly less than 2 of 100.
    share_of: str | None = None
    #: Of such a share: where stands how many independent requests these are worth to it, the first that is there.
    worth: tuple[str, ...] = ()
    #: It is the share of labelled samples that were answered right: where what is known of these stands below the
    #: summary, with ``samples`` and ``right``. No machine is quicker or slower at being right.
    right_of: str | None = None
    #: What it is never below; None where it may be below 0.
    least: float | None = 0.0
    #: It can be compared between runs at different rates: it is of a sample or of the server, or the rate itself. By
    #: the others no runs are ranked of which each searched for a rate of its own (``max_rate``).
    rate_free: bool = False
    #: It follows from how many samples are answered per second: less of it for fewer answers is no better server. So
    #: runs are judged by it only where the load says how many (``perfdb.offered.sets_rate``).
    follows_rate: bool = False
    #: It is worth what the method behind the energy is worth: a counter, or an estimate.
    energy_based: bool = False
    #: It is worth what the price behind it is worth: looked up, or not.
    price_based: bool = False
    #: Whether a disturbed machine makes it worse and never better, so that its value bounds that of a quiet one. A
    #: server whose cores are taken uses fewer of them.
    worsens: bool = True
    #: Its place among what a process holds of every valid result (``perfdb.indexes``); None: with an index of its own.
    held: int | None = None
    views: tuple[View, ...] = ("report", "sweep")
    #: Only answers that are streams of tokens have it: it is not offered for runs of others, nor may it bound them.
    streamed: bool = False
    #: A measure of the answers to the samples of `evaluate`: of other samples it is another figure, which is compared
    #: with none of these (``perfdb.judged_on``).
    evaluated: bool = False
    #: Names of earlier versions and short ones; accepted wherever figures are named.
    aliases: tuple[str, ...] = ()
    #: The figure that it stands behind in every list; without one it stands at the end.
    after: str | None = None
    #: How it follows from a summary that lacks it: that of a result from before it was stored.
    otherwise: Callable[[Mapping[str, Any]], float | None] | None = None
    #: Where below the summary stands what ``otherwise`` reads: whoever reads parts of results reads these, too.
    follows_from: tuple[str, ...] = ()

    @property
    def higher(self) -> bool:
        """Whether more is better."""
        return self.better == "higher"

    @property
    def in_percent(self) -> bool:
        """Whether people read it in per cent."""
        return self.display_unit == "%"

    @property
    def share(self) -> bool:
        """Whether it is a part of a whole, 0 to 1, which people read in per cent."""
        return self.in_percent and not self.above_one

    @property
    def drifts(self) -> bool:
        """Whether a machine makes it differ from run to run; of how right answers are the choice of samples does."""
        return not (self.evaluated or self.right_of)

    @property
    def word(self) -> str:
        """What it is called in a sentence."""
        return self.noun or self.title

    @property
    def shown_unit(self) -> str:
        """The unit of what people see."""
        return self.unit if self.display_unit is None else self.display_unit

    @property
    def axis(self) -> str:
        """What stands at a chart's axis: what it is called, with the unit."""
        return f"{self.word}, {self.shown_unit}" if self.shown_unit else self.word

    @property
    def column(self) -> str:
        """The head of its column; cells in per cent have their unit themselves."""
        return self.head or (self.word if self.in_percent else self.axis)

    @property
    def meaning(self) -> str:
        """What it is, with the unit of the stored value, in a line."""
        unit = "0 to 1" if self.share else self.unit
        return f"{self.title}, {unit}" if unit else self.title

    @property
    def field_path(self) -> str:
        """Where it stands in a whole result."""
        return f"summary.{self.path}"

    def stored(self, summary: Mapping[str, Any]) -> float | None:
        """Its value in a summary; None where it was not measured."""
        value = value_at(summary, self.path)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def value(self, summary: Mapping[str, Any]) -> float | None:
        """Like ``stored``; of a result from before it was stored, what follows from the figures beside it."""
        value = self.stored(summary)
        return self.otherwise(summary) if value is None and self.otherwise else value

    def interval_in(self, summary: Mapping[str, Any]) -> tuple[float, float] | None:
        """Its 95% interval within a run; None where there is none."""
        bounds = value_at(summary, self.interval) if self.interval else None
        return (float(bounds[0]), float(bounds[1])) if bounds else None

    def unbounded_in(self, summary: Mapping[str, Any]) -> bool:
        """Whether the value is a lower bound alone: a search that ended before it met a rate that breaks."""
        return self.bracketed and self.value(summary) is not None and self.interval_in(summary) is None

    @property
    def bound_sign(self) -> str:
        """What leads a value that a disturbed machine gave, for a quiet one is no worse; "" where that is not known."""
        if not self.worsens:
            return ""
        return {"lower": "≤ ", "higher": "≥ ", None: ""}[self.better]

    def displayed(self, value: float) -> float:
        """A stored value as people see it."""
        return value * self.display_factor
