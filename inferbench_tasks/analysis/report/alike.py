"""Whether two runs were asked the same thing, so that a figure of one can be better than the other's at all."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.analysis.energy_ground import got_by
from inferbench_tasks.analysis.goodness import OF_GOOD_ANSWERS, good_within
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import judged_on
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.offered import (
    NO_LOAD,
    OF_ANY_LENGTH,
    OF_ANY_LOAD,
    UNKNOWN,
    WITHOUT_LOAD,
    but_for_length,
    offered,
    sets_rate,
)


def not_alike(first: ResultDocument, other: ResultDocument) -> str | None:
    """Why no figure of the second run is better or worse than the first's; None where some may be."""
    for run in (first, other):
        if not run.valid:
            return f"{run.run_id} does not count ({run.verdict}): its figures are shown, not to be relied on."
    return of_another(first, other)


def of_another(first: ResultDocument, other: ResultDocument) -> str | None:
    """That the second run is of another task or data set; None if it is not."""
    for what in ("task", "dataset"):
        one, two = getattr(first.model, what), getattr(other.model, what)
        if one and two and one != two:
            return f"{other.run_id} is of another {what} ({two}, not {one}): no figure says which is better."
    return None


def loads_differ(first: ResultDocument, other: ResultDocument) -> str | None:
    """That they were offered different loads, from which most figures follow; None if they were not."""
    one, two = _load(first), _load(other)
    if one == two:
        return None
    judged = "its accuracy and its cold start"
    if but_for_length(one) == but_for_length(two):
        judged = "its accuracy, its cold start and its samples/s"
    return (
        f"{other.run_id} was offered another load ({two}, not {one}): what it reaches follows from that, so that only "
        f"{judged} are judged."
    )


def rates_of_their_own(first: ResultDocument, other: ResultDocument) -> str | None:
    """That each server answers as fast as it can, so that one needs fewer cores by answering less; None if not so."""
    if (load := _load(first)) != _load(other) or sets_rate(load) or load in (WITHOUT_LOAD, UNKNOWN):
        return None
    words = " and ".join(figure.title for figure in FIGURES.values() if figure.follows_rate)
    return (
        f"Under {load} each server answers at a rate of its own, from which follows: {words}. It is shown and not "
        "compared; what a sample takes is."
    )


def unlike(figure: Figure, first: ResultDocument, other: ResultDocument) -> bool:
    """Whether the two runs have unlike things under that figure's name, though each run counts."""
    if figure.evaluated:  # of samples, whatever the load: answers that depend on it make a run invalid
        return judged_on.of_result(first) != judged_on.of_result(other)
    if NO_LOAD in (_arrivals(first), _arrivals(other)):  # nobody watched what disturbed it
        return True
    loads = [_load(run) for run in (first, other)]
    if figure.name in OF_ANY_LENGTH:
        loads = [*map(but_for_length, loads)]
    if figure.name not in OF_ANY_LOAD and loads[0] != loads[1]:
        return True
    # A server that answers a quarter needs fewer cores for it: the figure of a sample compares them.
    if figure.follows_rate and not sets_rate(_load(first)):
        return True
    # A request of eight samples is another thing than one of one: the figure of a sample compares them.
    if figure.per_sample is not None and (first.load.batch_size or 1) != (other.load.batch_size or 1):
        return True
    # Under a wider bound more answers are good: that is no better server.
    if figure.name in OF_GOOD_ANSWERS and _good(first) != _good(other):
        return True
    return _got_by(figure, first) != _got_by(figure, other)


def _arrivals(run: ResultDocument) -> Any:
    return run.load.arrivals.get("kind")


def _load(run: ResultDocument) -> str:
    """In words that are equal for equal loads alone, by which results are grouped everywhere."""
    return offered(run.model_dump(include={"load"})["load"])


def judged_on_others(first: ResultDocument, other: ResultDocument) -> str | None:
    """That both were evaluated, on other data or other samples of it; None if not so."""
    one, two = judged_on.of_result(first), judged_on.of_result(other)
    if judged_on.NOTHING in (one, two) or one == two:
        return None
    which = f"{drawn}: {two}" if (drawn := judged_on.other_samples(first, other)) else two
    return f"{other.run_id} was evaluated on {which}, not {one}: how right its answers are is shown, and not compared."


def _got_by(figure: Figure, run: ResultDocument) -> str:
    if not figure.energy_based:
        return ""
    return got_by(figure, run.summary.model_dump(include={"energy", "carbon"}))


def _good(run: ResultDocument) -> str:
    return good_within(run.summary.model_dump())
