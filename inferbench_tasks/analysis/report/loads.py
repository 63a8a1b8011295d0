"""The loads that a report's runs were offered: runs are compared within one, for a load is no configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from inferbench_tasks.perfdb.offered import UNKNOWN, but_for_length, offered
from inferbench_tasks.submission.digest import LABELS

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView


def load_of(view: RunView) -> str:
    """The load of a run in words, equal for equal loads (``perfdb.offered``)."""
    return offered(view.result.model_dump(include={"load"})["load"]) if view.result else UNKNOWN


def by_load(views: Iterable[RunView]) -> dict[str, list[RunView]]:
    """The runs under each load, loads and runs in their order: those of which all samples are there from the start are
    one, however many these are, for so many are answered per second. By nothing else such runs are compared.
    """
    groups: dict[str, list[RunView]] = {}
    for view in views:
        groups.setdefault(but_for_length(load_of(view)), []).append(view)
    return groups


def lengths_of(views: Iterable[RunView]) -> list[str]:
    """The loads of runs of one of these groups, each once: more than one where they differ in their length."""
    return list(dict.fromkeys(load_of(view) for view in views))


def same_but_for_length(views: Iterable[RunView]) -> bool:
    """Whether runs of one of these groups differ in nothing else: a length is no configuration."""
    return len({(configuration(view), _asked(view)) for view in views}) == 1


def configuration(view: RunView) -> str:
    """What was served and how, without the load: equal for runs that differ in their load only."""
    job = {name: value for name, value in view.job.items() if name != "load" and name not in LABELS}
    return repr(sorted(job.items(), key=lambda item: item[0]))


def _asked(view: RunView) -> str:
    """All settings of its load but how many requests there are."""
    load = view.job.get("load") or {}
    arrivals = {name: value for name, value in (load.get("arrivals") or {}).items() if name != "requests"}
    return repr(sorted({**load, "arrivals": arrivals}.items()))
