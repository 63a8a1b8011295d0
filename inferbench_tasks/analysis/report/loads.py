"""The loads that a report's runs were offered: runs are compared within one, for a load is no configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from inferbench_tasks.perfdb.offered import UNKNOWN, offered
from inferbench_tasks.submission.digest import LABELS

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView


def load_of(view: RunView) -> str:
    """The load of a run in words, equal for equal loads (``perfdb.offered``)."""
    return offered(view.result.model_dump(include={"load"})["load"]) if view.result else UNKNOWN


def by_load(views: Iterable[RunView]) -> dict[str, list[RunView]]:
    """The runs under each load, loads and runs in their order."""
    groups: dict[str, list[RunView]] = {}
    for view in views:
        groups.setdefault(load_of(view), []).append(view)
    return groups


def configuration(view: RunView) -> str:
    """What was served and how, without the load: equal for runs that differ in their load only."""
    job = {name: value for name, value in view.job.items() if name != "load" and name not in LABELS}
    return repr(sorted(job.items(), key=lambda item: item[0]))
