"""Which models of a list are one, by hand."""

from __future__ import annotations

import pytest

from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.predictions import predictions
from inferbench_tasks.brick_jobs.same_models import kinds
from inferbench_tasks.bricks.results import WHOLE
from tests.unit.bricks.builders import result

#: ns; w and d are a large and a small part of models, t a transposition.
TIMES = {"w": 85.0, "d": 10.0, "t": 1.0, "x": 4.0, "y": 9.0, "z": 14.0, "r": 95.0, "s": 96.0, "u": 97.0}
KNOWN = {name: result(name, *[ns] * 3) for name, ns in TIMES.items()}


def cut(at: int, *parts: str, batch: int = 1, operators: tuple[str, ...] | None = None) -> CutModel:
    """Each of its bricks is an operator."""
    return CutModel(
        at=at, name=f"m{at}", copies=1, task=None, digest=str(at), batch_size=batch, granularity="1",
        layers=len(parts), operators=operators or parts, whole=f"{WHOLE}{at}", parts=parts, needs=((),) * len(parts),
    )  # fmt: skip


def test_models_are_one_that_share_nine_tenths_of_both_of_their_time() -> None:
    """w and d take 95: with a transposition more (95 of 96) it is the same model. With x at its place, 85 of 95 are not
    nine tenths (89 %). w, d and y: 95 of 104 (91%) are; w and z, 85 of 99, are not."""
    assert kinds([cut(0, "w", "d"), cut(1, "w", "d", "t")], KNOWN) == [0, 0]
    assert kinds([cut(0, "w", "d"), cut(1, "w", "x")], KNOWN) == [0, 1]
    assert kinds([cut(0, "w", "d"), cut(1, "w", "d", "y")], KNOWN) == [0, 0]
    assert kinds([cut(0, "w", "d"), cut(1, "w", "z")], KNOWN) == [0, 1]


def test_the_same_bricks_in_other_numbers_are_another_model() -> None:
    """All bricks of the first are in the second, which repeats one of them: 95 of 180 ns. Nor is a model the same at
    another batch size here, and one of the same operators in the same order is, whatever its bricks."""
    assert kinds([cut(0, "w", "d"), cut(1, "w", "w", "d")], KNOWN) == [0, 1]
    assert kinds([cut(0, "w", "d"), cut(1, "w", "d", batch=2)], KNOWN) == [0, 1]
    same = ("Conv", "Relu")
    assert kinds([cut(0, "w", "d", operators=same), cut(1, "s", "t", operators=same)], KNOWN) == [0, 0]


def test_what_is_the_same_as_two_others_makes_one_of_all() -> None:
    """w, d and w, d, t, y share 95 of 105 (90.5%), these and w, d, t, y, x 105 of 109; the first and the last, 95 of
    109, would be two."""
    cuts = [cut(0, "w", "d"), cut(1, "w", "d", "t", "y", "x"), cut(2, "w", "d", "t", "y")]
    assert kinds(cuts[:2], KNOWN) == [0, 1]
    assert len(set(kinds(cuts, KNOWN))) == 1


def test_a_model_of_another_exporter_tells_nothing_of_it() -> None:
    """The first two are one network, once with a transposition: ten times as long as their sums, which neither may
    learn from the other. Three others took their sums: so both are predicted, and of the others each is told of by one
    of the two."""
    cuts = [cut(0, "w", "d"), cut(1, "w", "d", "t"), *(cut(at, "rsu"[at - 2]) for at in range(2, 5))]
    ns = [950.0, 960.0, 95.0, 96.0, 97.0]
    known = KNOWN | {f"{WHOLE}{at}": result(f"{WHOLE}{at}", *[one] * 3) for at, one in enumerate(ns)}
    made = predictions(cuts, known, 3)
    for at in (0, 1):
        assert made[at][0].calibrated_by == ["m2", "m3", "m4"] and made[at][0].judged_by == 3
        assert made[at][0].factor == pytest.approx(1)
    assert made[2][0].calibrated_by == ["m0", "m3", "m4"]
