"""A bisection's answer in sentences for people, and as plain data for programs."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.regression.base import percent
from inferbench_tasks.regression.bisect.answer import Answer
from inferbench_tasks.regression.bisect.sequential import Effect
from inferbench_tasks.regression.bisect.state import BisectState
from inferbench_tasks.regression.watched import figure_named


def sentences(state: BisectState, answer: Answer) -> list[str]:
    """What came out, with intervals; then what was measured and skipped."""
    task, names = state.task, state.task.steps
    figure = figure_named(task.figure).title
    ends = f"{names[0]} and {names[-1]}"
    lines = []
    if answer.kind == "open":
        lines.append("not finished; the same command goes on")
    elif answer.kind == "none":
        lines.append(
            f"no culprit: {ends} do not differ by {percent(task.detect):.3g}% or more ({figure} {_text(answer.ends)})"
        )
    elif answer.kind == "undecided":
        lines.append(f"not decided whether {ends} differ: {figure} {_text(answer.ends)}")
    elif answer.kind == "scattered":
        good, bad = _step(state, answer.good), _step(state, answer.bad)
        lines.append(
            f"no culprit named: {ends} differ ({figure} {_text(answer.ends)}), but {bad} alone was not shown to differ "
            f"from {good} ({_text(answer.effect)}): several small changes, or bad luck"
        )
    else:
        if answer.kind == "culprit":
            lines.append(f"culprit: {_step(state, answer.bad)}")
        else:
            assert answer.good is not None and answer.bad is not None
            lines.append(f"culprit: one of {', '.join(names[answer.good + 1 : answer.bad + 1])}")
        stage = f"in {answer.stage}" if answer.stage else "no single stage stands out"
        word = "worse" if answer.worse else "better"
        lines.append(
            f"  {figure} {_text(answer.effect)} against {_step(state, answer.good)}: {word}, {stage}"
        )
        if not answer.whole:
            lines.append(
                f"  the ends differ by more ({_text(answer.ends)}): others of the steps changed it too"
            )
    lines += [f"skipped {names[place]}: {reason}" for place, reason in sorted(state.skipped.items())]
    lines.append(
        f"{answer.steps} comparison(s), {answer.pairs} pairs; the whole answer is wrong in at most {task.error:.1%}"
    )
    return lines


def as_mapping(state: BisectState, answer: Answer) -> dict[str, Any]:
    """Names instead of places, changes in per cent."""
    return {
        "submission": state.task.name,
        "figure": state.task.figure,
        "answer": answer.kind,
        "good": _step(state, answer.good),
        "bad": _step(state, answer.bad),
        "change": _plain(answer.effect),
        "ends": _plain(answer.ends),
        "whole": answer.whole,
        "worse": answer.worse,
        "stage": answer.stage,
        "parts": [part.__dict__ for part in answer.parts],
        "comparisons": [
            {"purpose": c.purpose, "baseline": _step(state, c.baseline), "candidate": _step(state, c.candidate),
             "decision": c.decision, "pairs": c.pairs(), "runs": [run.run_id for run in c.runs]}
            for c in state.comparisons
        ],
        "skipped": {state.task.steps[place]: reason for place, reason in sorted(state.skipped.items())},
        "pairs": answer.pairs,
        "error_ratio": state.task.error,
    }  # fmt: skip


def _step(state: BisectState, place: int | None) -> str | None:
    return None if place is None else state.task.steps[place]


def _text(effect: Effect | None) -> str:
    if effect is None:
        return "not measured"
    return f"{percent(effect.effect):+.1f}% (95%: {percent(effect.low):+.1f} to {percent(effect.high):+.1f}%)"


def _plain(effect: Effect | None) -> dict[str, float] | None:
    if effect is None:
        return None
    return {
        "change_percent": percent(effect.effect), "low_percent": percent(effect.low),
        "high_percent": percent(effect.high), "pairs": effect.pairs,
    }  # fmt: skip
