"""Which of the runs that are acceptable to use where they were offered several loads: the best under each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from inferbench_tasks.analysis.report.advice import Advice
from inferbench_tasks.analysis.report.choose import NAMED, choose, figures_text
from inferbench_tasks.analysis.report.judged import JudgedRuns
from inferbench_tasks.analysis.report.loads import configuration

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView


def choose_within_loads(
    groups: Mapping[str, Sequence[RunView]], acceptable: Sequence[RunView], judge: JudgedRuns
) -> Advice:
    """The best of the ``acceptable`` runs under each load; one for all only where all loads name one configuration.

    What runs under different loads reach is not compared: a server answers the rate that it is offered.
    """
    loads = list(groups)
    start = f"The runs were offered {len(loads)} loads, and a load is no configuration"
    told = [*loads[:NAMED], *([f"and {len(loads) - NAMED} more"] if len(loads) > NAMED else [])]
    if len({configuration(view) for views in groups.values() for view in views}) == 1:
        return Advice(
            None,
            (f"{start}: they differ in nothing else ({'; '.join(told)}), so there is none to choose.",),
        )
    sentences = [f"{start}, so runs are compared under the same load only."]
    bests: list[RunView | None] = []
    for load, members in groups.items():
        views = [view for view in members if view in acceptable]
        if not views:
            sentences.append(f"Under {load}, no run keeps the SLO.")
        elif len(members) == 1:
            sentences.append(
                f"Under {load}, nothing else was run than {views[0].label}: {figures_text(views[0])}."
            )
            continue
        else:
            choice = choose(views, judge)
            sentences.append(f"Under {load}: {choice.text}")
            bests.append(choice.best)
            continue
        bests.append(None)
    choices = {configuration(view) if view else "" for view in bests}
    same = len(choices) == 1 and bests[0] is not None
    return Advice(bests[0] if same else None, tuple(sentences))
