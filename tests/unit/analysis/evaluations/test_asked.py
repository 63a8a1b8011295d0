"""What a query asks of the parts of one evaluation, which are one row."""

from __future__ import annotations

from inferbench_tasks.analysis.evaluations.asked import Asked
from inferbench_tasks.analysis.evaluations.beside import Parts
from inferbench_tasks.perfdb.queries import parse


def asked(query: str) -> Asked:
    """Its terms apart."""
    return Asked.of(parse(query).filter)


def test_terms_are_asked_of_what_the_row_shows() -> None:
    """A model of any part, a measure of all together, a verdict of the worst."""
    found = asked("model=digits top1_ratio>=0.9 verdict=valid extensions.evaluation.samples=20")
    assert [[path for term in terms for path in term] for terms in (found.of_parts, found.of_verdict)] == [
        ["model.name"],
        ["verdict"],
    ]
    assert len(found.of_row) == 2 and found.tells_wholes_apart
    assert not asked("").tells_wholes_apart and asked("model=digits").candidates == {
        "model.name": {"$eq": "digits"}
    }


def test_a_verdict_is_the_worst_part_s() -> None:
    """One that failed beside a valid one is no valid evaluation."""
    parts: Parts = {1: {"verdict": "valid"}, 2: {"verdict": "failed: load, it broke"}}
    assert asked("verdict=failed").verdict_holds(parts)
    assert not asked("verdict=valid").verdict_holds(parts)
    assert asked("verdict!=valid").verdict_holds(parts) and asked("model=x").verdict_holds(parts)
    worse: Parts = {1: {"verdict": "invalid: late"}, 2: {"verdict": "disturbed: steal took 9%"}}
    assert asked("verdict=invalid").verdict_holds(worse) and not asked("verdict=disturbed").verdict_holds(
        worse
    )


def test_a_figure_is_the_whole_s() -> None:
    """0.8 of all, whatever each part has; of speed a whole has none."""
    document = {
        "summary": {"quality": {"top1_ratio": {"value": 0.8}}},
        "extensions": {"evaluation": {"samples": 20}},
    }
    for query, holds in (
        ("top1_ratio>=0.8", True), ("top1_ratio>0.8", False), ("extensions.evaluation.samples=20", True),
        ("p99_ms<100", False), ("p99_ms=none", True),
    ):  # fmt: skip
        assert asked(query).row_holds(document) is holds
