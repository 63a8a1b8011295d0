"""Measures against the libraries that others use for them; skipped where those are not installed.

``pip install jiwer pycocotools`` into the environment has them run. What scikit-learn has is in ``test_measures``.
"""

from __future__ import annotations

import contextlib
import io
import random
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.quality.average_precision import AveragePrecision, AveragePrecision50
from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.error_rates import CharacterErrors, WordErrors

WORDS = ("one", "two", "three", "four", "Fünf", "six.", "a")
PICTURES, CLASSES, MOST = 12, 3, 9


def sentences(seed: int) -> tuple[list[str], list[str]]:
    """Right texts and answers: words are left out, put in and replaced."""
    draw = random.Random(seed)
    right, answers = [], []
    for _ in range(40):
        words = [draw.choice(WORDS) for _ in range(draw.randint(1, 9))]
        right.append(" ".join(words))
        given = [draw.choice(WORDS) if draw.random() < 0.2 else word for word in words if draw.random() > 0.1]
        answers.append(" ".join([*given, draw.choice(WORDS)] if draw.random() < 0.2 else given))
    return right, answers


@pytest.mark.parametrize("seed", range(5))
def test_error_rates_are_those_of_jiwer(seed: int) -> None:
    """Over all texts together, not the mean of each text's rate."""
    jiwer = pytest.importorskip("jiwer")
    right, answers = sentences(seed)
    answered = Answered(
        {"text": np.array(answers)}, {"text": np.array(answers)}, targets={"texts": np.array(right)}
    )
    assert WordErrors().of(answered).value == pytest.approx(jiwer.wer(right, answers))
    assert CharacterErrors().of(answered).value == pytest.approx(jiwer.cer(right, answers))


def boxes(seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Right boxes n x m x 6 (class, corners, crowd; -1 fills up) and answers n x m x 6 (corners, score, class).

    Some answers are a right box that was moved a little, some its second finding, some are of nothing.
    """
    rng = np.random.default_rng(seed)
    right = np.full((PICTURES, MOST, 6), -1.0)
    answers = np.zeros((PICTURES, 3 * MOST, 6))
    for picture in range(PICTURES):
        at = 0
        for box in range(rng.integers(1, MOST + 1)):
            x, y, w, h = *rng.uniform(0, 60, 2), *rng.uniform(8, 40, 2)
            label, crowd = rng.integers(CLASSES), rng.random() < 0.15
            right[picture, box] = (label, x, y, x + w, y + h, crowd)
            for _ in range(rng.integers(0, 3)):
                dx, dy = rng.normal(0, 2.5, 2)
                named = label if rng.random() > 0.1 else rng.integers(CLASSES)
                answers[picture, at] = (x + dx, y + dy, x + w + dx, y + h + dy, rng.uniform(0.05, 1), named)
                at += 1
        x, y = rng.uniform(0, 60, 2)
        answers[picture, at] = (x, y, x + 15, y + 15, rng.uniform(0.05, 1), rng.integers(CLASSES))
    return right, answers


@pytest.mark.parametrize("seed", range(5))
def test_average_precision_is_that_of_coco(seed: int) -> None:
    """AP over ten thresholds and AP50, with crowds, second findings and boxes of nothing."""
    coco = pytest.importorskip("pycocotools.coco")
    evaluation = pytest.importorskip("pycocotools.cocoeval")
    right, answers = boxes(seed)
    known = [(picture, row) for picture in range(PICTURES) for row in right[picture] if row[0] >= 0]
    truth = coco.COCO()
    truth.dataset = {
        "info": {},
        "images": [{"id": at} for at in range(PICTURES)],
        "categories": [{"id": at} for at in range(CLASSES)],
        "annotations": [
            {"id": at + 1, "image_id": picture, "category_id": int(row[0]), "iscrowd": int(row[5]),
             "bbox": [row[1], row[2], row[3] - row[1], row[4] - row[2]],
             "area": (row[3] - row[1]) * (row[4] - row[2])}
            for at, (picture, row) in enumerate(known)
        ],
    }  # fmt: skip
    found = [
        {"image_id": picture, "category_id": int(row[5]), "score": row[4],
         "bbox": [row[0], row[1], row[2] - row[0], row[3] - row[1]]}
        for picture in range(PICTURES) for row in answers[picture] if row[4] > 0
    ]  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        judge = evaluation.COCOeval(truth, truth.loadRes(found), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    answered = Answered({"boxes": answers}, {"boxes": answers}, targets={"boxes": right})
    for measure, theirs in ((AveragePrecision(), judge.stats[0]), (AveragePrecision50(), judge.stats[1])):
        assert measure.missing(answered) is None
        assert measure.figure(measure.parts(answered)) == pytest.approx(theirs, abs=1e-9)
        assert 0.05 < theirs < 0.95
