"""What a report says of the objective: which runs keep it, which do not and by how much, and where nobody can tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.report.objective import LATENCY, checks_of

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView

#: So many runs are named.
_NAMED = 6


def keeping_text(
    keeping: Sequence[RunView], all_: Sequence[RunView], undecided: Sequence[RunView]
) -> list[str]:
    """Which of the valid runs (``all_``) keep their objective, which miss it, and of which runs nobody can tell."""
    texts = list(dict.fromkeys(map(bounds_text, all_)))
    bounds = texts[0] if len(texts) == 1 else f"each its own: {'; '.join(texts)}"
    if len(keeping) == len(all_):
        who = {1: "The run keeps", 2: "Both runs keep"}.get(len(all_), f"All {len(all_)} runs keep")
        return [f"{who} the SLO ({bounds})."]
    sentences = [f"{len(keeping)} of {len(all_)} runs keep the SLO ({bounds})."]
    sentences += missing_text(all_)
    if undecided:
        sentences.append(unknown_text(undecided))
    return sentences


def missing_text(views: Sequence[RunView]) -> list[str]:
    """The first run that misses its objective, with its figures, and how many others do; [] where none does."""
    missing = [view for view in views if view.figure("slo.met") is False]
    if not missing:
        return []
    others = len(missing) - 1
    more = f"; {others} more {'misses' if others == 1 else 'miss'} it" if others else ""
    return [f"With {missing[0].label}, {failures(missing[0])}{more}."]


def bounds_text(view: RunView) -> str:
    """The SLO in words."""
    return ", ".join(check.allowed for check in checks_of(view))


def failures(view: RunView) -> str:
    texts = [check.failure for check in checks_of(view) if check.met is False]
    return ", ".join(texts) or "a bound can't be judged"


def unknown_text(views: Sequence[RunView]) -> str:
    """Every run of which nobody can tell whether it keeps its objective, and why; beyond ``_NAMED`` how many more."""
    if len(views) == 1:
        return f"Whether {views[0].label} keeps the SLO can't be told: {_doubts(views[0])}."
    labels_by_reason: dict[str, list[str]] = {}
    for view in views[:_NAMED]:
        labels_by_reason.setdefault(_doubts(view), []).append(view.label)
    parts = [
        f"{listing(labels)} ({'each: ' if len(labels) > 1 else ''}{reason})"
        for reason, labels in labels_by_reason.items()
    ]
    if len(views) > _NAMED:
        parts.append(f"and {len(views) - _NAMED} more")
    return f"Whether {len(views)} runs keep the SLO can't be told: {'; '.join(parts)}."


def undecided_text(undecided: int, runs: int) -> str:
    """In how many of the runs nobody can tell whether they keep their objective."""
    return f"The SLO is undecided, neither met nor missed, in {undecided} of {runs} run{'s' if runs > 1 else ''}."


def _doubts(view: RunView) -> str:
    if view.bounds_only and view.figure("slo.met") is False:
        return f"on a disturbed machine {failures(view)}"
    checks = [check for check in checks_of(view) if check.met is None]
    withheld: dict[str, str] = view.figure("e2e_latency_ms.withheld") or {}
    lacking = [check.figure for check in checks if check.value is None]
    taken_out = [figure.word for figure in lacking if figure.path.rpartition(".")[2] in withheld]
    percentiles = [
        figure.word for figure in lacking if figure.path.startswith(LATENCY) and figure.word not in taken_out
    ]
    others = [figure for figure in lacking if not figure.path.startswith(LATENCY)]
    known: dict[str, str] = view.figure("tokens.reasons") or {}
    explained = {
        figure: known[name] for figure in others if (name := figure.path.rpartition(".")[2]) in known
    }
    unexplained = [figure.word for figure in others if figure not in explained]
    reasons = [check.doubt for check in checks if check.value is not None]
    if taken_out:
        reasons.append(f"its {listing(taken_out)} {'is' if len(taken_out) == 1 else 'are'} withheld")
    if percentiles:
        answers = view.figure("ok")
        reasons.append(f"it has {answers} good answers, too few for {listing(percentiles)}; measure longer")
    reasons += [f"{figure.word} has no figure ({reason})" for figure, reason in explained.items()]
    if unexplained:
        reasons.append(f"{listing(unexplained)} {'was' if len(unexplained) == 1 else 'were'} not measured")
    return "; ".join(reasons)


def overshoot(view: RunView) -> float:
    """How far a run is from its SLO: the worst ratio of a value to its bound."""
    return max([0.0, *(check.overshoot for check in checks_of(view))])


def listing(names: Any) -> str:
    items = list(names)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
