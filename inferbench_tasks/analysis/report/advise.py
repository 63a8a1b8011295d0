"""What a submission's runs say, in a few sentences with their numbers; only valid runs count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from inferbench_tasks.analysis.certainty import SETTLED
from inferbench_tasks.analysis.report import paired_advice
from inferbench_tasks.analysis.report.advice import Advice
from inferbench_tasks.analysis.report.choose import choose
from inferbench_tasks.analysis.report.choose_by_load import choose_within_loads
from inferbench_tasks.analysis.report.columns import unsteady_notes
from inferbench_tasks.analysis.report.judged import JudgedRuns
from inferbench_tasks.analysis.report.kept import (
    failures,
    keeping_text,
    listing,
    missing_text,
    overshoot,
    undecided_text,
    unknown_text,
)
from inferbench_tasks.analysis.report.loads import by_load, load_of
from inferbench_tasks.analysis.report.objective import objective_word
from inferbench_tasks.analysis.report.paired import Blocks
from inferbench_tasks.analysis.report.parts import one_of_each
from inferbench_tasks.perfdb.offered import WITHOUT_LOAD

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView

_PARTS = (
    "Parts of one evaluation are no alternatives of each other: it stands here with the figures of its worst part, by "
    "verdict and objective, then by samples/s, then by p99."
)


def advise(views: Sequence[RunView]) -> Advice:
    """Which run's configuration to use under the SLO, and why; what is missing is said.

    Of an interleaved sweep by the pairs of its blocks, which a disturbed machine leaves standing. The parts of one
    evaluation are one run.
    """
    each = one_of_each(views)
    if len(each) == len(views):
        return _advise(views)
    advice = _advise([shown for shown, _ in each])
    runs = {id(shown): run for shown, run in each}
    return replace(
        advice,
        best=runs[id(advice.best)] if advice.best is not None else None,
        among=tuple(runs[id(view)] for view in advice.among),
        sentences=(*advice.sentences, _PARTS),
    )


def _advise(views: Sequence[RunView]) -> Advice:
    """``views``: those that are alternatives."""
    undecided = [view for view in views if objective_word(view) == "undecided"]
    advice = _advice_of(views, undecided)
    judged = sum(objective_word(view) is not None for view in views)
    if not undecided or advice.sentences[0] == unknown_text(undecided):
        return advice
    return replace(advice, undecided=undecided_text(len(undecided), judged))


def _advice_of(views: Sequence[RunView], undecided: Sequence[RunView]) -> Advice:
    """``undecided``: those of the runs of which nobody can tell whether they keep their objective, valid or not."""
    blocks = Blocks.among(views)
    if blocks is not None:
        best, texts = paired_advice.sentences_of(blocks)
        runs = blocks.runs(best) if best is not None else []
        return Advice(runs[0] if runs else None, tuple(texts))
    unloaded = [view for view in views if load_of(view) == WITHOUT_LOAD]
    if len(unloaded) == len(views) > 0:
        return Advice(
            None, ("No run had a load: what they reach is not measured, so nothing is recommended.",)
        )
    valid = [view for view in views if view.valid and view.figure("throughput_samples_per_s") is not None]
    left_out = len(views) - len(valid) - len(unloaded)
    note = (
        (f"{left_out} of {len(views)} runs are left out: they are not valid, so their figures don't count.",)
        if left_out
        else ()
    )
    if not valid:
        return Advice(None, ("No run is valid, so there is nothing to recommend.", *note))
    with_slo = [view for view in valid if view.figure("slo") is not None]
    if with_slo:
        keeping = [view for view in with_slo if view.figure("slo.met") is True]
        if not keeping and any(view.figure("slo.met") is None for view in with_slo):
            return Advice(None, (unknown_text(undecided), *missing_text(with_slo), *note))
        if not keeping:
            nearest = min(with_slo, key=overshoot)
            return Advice(
                None, (f"No run keeps the SLO; the nearest is {nearest.label}: {failures(nearest)}.", *note)
            )
        sentences = keeping_text(keeping, with_slo, undecided)
    else:
        keeping = valid
        sentences = ["No SLO is set, so runs are compared by throughput, CPU and latency."]
    models = dict.fromkeys(view.result.model.name for view in keeping if view.result)
    if len(models) > 1:
        sentences.append(
            f"They serve different models ({listing(models)}): what an answer is worth is not compared."
        )
    judge = JudgedRuns(valid)
    groups = by_load(valid)
    choice = choose(keeping, judge) if len(groups) == 1 else choose_within_loads(groups, keeping, judge)
    sure = judge.keeps(choice.best) if choice.best and with_slo else None
    unsure = (
        (
            f"That it really keeps the SLO is sure by {sure:.0%} only: it is close to a bound, and more "
            "runs of it would tell.",
        )
        if sure is not None and sure < SETTLED
        else ()
    )
    doubts = (*unsure, *(unsteady_notes([choice.best]) if choice.best else ()))
    return replace(choice, sentences=(*sentences, *choice.sentences, *doubts, *note), doubts=doubts)
