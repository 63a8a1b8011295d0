"""Made-up spans of a model on a stack, for the tests of the analyses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from inferbench_tasks.analysis.stack.base import Analysis, Subject
from inferbench_tasks.analysis.stack.profile import Profile, profile_of
from inferbench_tasks.tracing.spans import Span

US = 1_000
#: name, type, us, attributes
Made = tuple[str, str, float, dict[str, Any]]


def layer(name: str, type_: str, us: float, shape: Sequence[int] | None = None, **more: Any) -> Made:
    """One layer; ``shape``: of its output."""
    return name, type_, us, ({"output_shapes": [list(shape)]} if shape else {}) | more


def run(number: int, round_: int, layers: Sequence[Made], between_us: float = 10) -> Iterator[Span]:
    """One traced request: its run takes its layers and so much between them."""
    trace = f"{round_:016x}{number:016x}"
    whole = sum(us for _, _, us, _ in layers) + between_us
    yield Span(trace, 0, -1, "application", "request", 0, round((whole + 50) * US), "", {"round": round_})
    yield Span(trace, 1, 0, "framework", "session.run", 0, round(whole * US))
    at = 0.0
    for place, (name, type_, us, attributes) in enumerate(layers):
        yield Span(trace, 2 + place, 1, "layer", name, round(at * US), round(us * US), type_, attributes)
        at += us


def profile(
    *rounds: Sequence[Sequence[Made]], label: str = "a", between_us: Sequence[float] | None = None
) -> Profile:
    """The profile of rounds of runs."""
    spans = [
        span
        for at, runs in enumerate(rounds)
        for number, layers in enumerate(runs)
        for span in run(number, at, layers, (between_us or [10] * len(rounds))[at])
    ]
    found = profile_of(spans, label)
    assert found is not None
    return found


def sentence_of(analysis: Analysis, subject: Subject) -> str:
    """What the analysis says of its table of the subject."""
    return analysis.sentence(subject, analysis.rows(subject))
