"""Measures against the libraries that others use for them; skipped where those are not installed.

They are of the developers' environment (``make dev``). What scikit-learn has is in ``test_measures``.
"""

from __future__ import annotations

import collections
import contextlib
import io
import json
import random
import re
import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.datasets.base import open_dataset
from inferbench_tasks.datasets.fit import fitted
from inferbench_tasks.modelrepo.zoo_digits import Digits
from inferbench_tasks.quality.average_precision import (
    AveragePrecision,
    AveragePrecision50,
    AveragePrecisionLarge,
    AveragePrecisionMedium,
    AveragePrecisionSmall,
)
from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.error_rates import CharacterErrors, WordErrors
from inferbench_tasks.quality.squad import AnswerF1, ExactMatch
from tests.layouts import png

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


def scenes(folder: Path, seed: int) -> list[dict[str, Any]]:
    """A data set in COCO's layout: objects of all sizes in images of several, some crowds, some images without any,
    areas that are less than their boxes'. Returned: what a detector finds, in the images' own pixels."""
    rng = np.random.default_rng(seed)
    (folder / "val").mkdir(parents=True)
    (folder / "annotations").mkdir()
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for at in rng.permutation(40) + 5:
        width, height = (int(side) for side in rng.integers(150, 400, 2))
        images.append({"id": int(at), "file_name": f"{at}.png", "width": width, "height": height})
        (folder / "val" / f"{at}.png").write_bytes(png((width, height), 3))
        for _ in range(0 if rng.random() < 0.2 else rng.integers(1, 8)):
            w, h = np.minimum(np.exp(rng.uniform(2.3, 5.5, 2)), (width, height))
            x, y = rng.uniform(0, width - w), rng.uniform(0, height - h)
            label, crowd = int(rng.choice([2, 7, 90])), int(rng.random() < 0.12)
            annotations.append(
                {"id": len(annotations) + 1, "image_id": int(at), "category_id": label, "iscrowd": crowd,
                 "bbox": [x, y, w, h], "area": float(w * h * rng.uniform(0.4, 1))}
            )  # fmt: skip
            for _ in range(rng.integers(0, 4)):
                dx, dy, dw, dh = rng.normal(0, 0.08, 4) * (w, h, w, h)
                named = label if rng.random() > 0.1 else int(rng.choice([2, 7, 90]))
                box = [x + dx, y + dy, max(w + dw, 1), max(h + dh, 1)]
                found.append(
                    {"image_id": int(at), "category_id": named, "score": rng.uniform(0.05, 1), "bbox": box}
                )
        for _ in range(rng.integers(0, 3)):
            box = [rng.uniform(0, 100), rng.uniform(0, 100), *np.exp(rng.uniform(2, 5.5, 2))]
            found.append({"image_id": int(at), "category_id": 7, "score": rng.uniform(0.05, 1), "bbox": box})
    document = {
        "images": images, "annotations": annotations,
        "categories": [{"id": at, "name": str(at)} for at in (90, 2, 7, 13)],
    }  # fmt: skip
    (folder / "annotations" / "instances_val.json").write_text(json.dumps(document))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_data_set_in_cocos_layout_has_cocos_figures(tmp_path: Path, seed: int) -> None:
    """The same file and detections, ours in pixels of an input of 320 x 192 into which each image is squeezed: AP, AP50
    and AP of small, medium and large objects, with crowds, images without any, and a category that never occurs.
    """
    coco = pytest.importorskip("pycocotools.coco")
    evaluation = pytest.importorskip("pycocotools.cocoeval")
    found = scenes(tmp_path / "set", seed)
    with contextlib.redirect_stdout(io.StringIO()):
        truth = coco.COCO(str(tmp_path / "set" / "annotations" / "instances_val.json"))
        judge = evaluation.COCOeval(truth, truth.loadRes(found), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    model = ModelArtifact(
        name="m", framework="onnx", format="onnx", path="", digest="",
        inputs=(TensorSpec(name="input", dtype="float32", shape=(3, 192, 320)),),
        outputs=(TensorSpec(name="detections", dtype="float32", shape=(-1, 6)),),
    )  # fmt: skip
    dataset = fitted(open_dataset("coco", "set", tmp_path), Digits("digits"), model)
    answers = np.zeros((len(dataset), 60, 6))
    for row, image in zip(answers, sorted(truth.getImgIds()), strict=True):
        width, height = truth.imgs[image]["width"], truth.imgs[image]["height"]
        for at, each in enumerate(one for one in found if one["image_id"] == image):
            x, y, w, h = each["bbox"]
            corners = (np.array([x, y, x + w, y + h]) * np.tile([320 / width, 192 / height], 2)).tolist()
            row[at] = (*corners, each["score"], [2, 7, 13, 90].index(each["category_id"]))
    outputs = {"detections": answers}
    answered = Answered(outputs, outputs, targets=dict(dataset.targets()))
    measures = (
        (AveragePrecision(), 0), (AveragePrecision50(), 1), (AveragePrecisionSmall(), 3),
        (AveragePrecisionMedium(), 4), (AveragePrecisionLarge(), 5),
    )  # fmt: skip
    for measure, at in measures:
        assert measure.missing(answered) is None
        assert measure.figure(measure.parts(answered)) == pytest.approx(judge.stats[at], abs=1e-9)
        assert 0.05 < judge.stats[at] < 0.95


@pytest.mark.parametrize("seed", range(2))
def test_exact_match_and_f1_are_those_of_squads_own_script(seed: int) -> None:
    """The formulas of SQuAD 2.0's evaluate-v2.0.py, written down once more: answers with articles, punctuation,
    repeated words and other Unicode, several right ones, and none."""
    draw = random.Random(seed)
    words = ("the", "A", "cat,", "cat", "dogs", "Über", "1843", "—", "an", "it's", "")

    def text(most: int) -> str:
        return " ".join(draw.choice(words) for _ in range(draw.randint(0, most)))

    golds = [[text(5) for _ in range(3)] if draw.random() < 0.8 else ["", "", ""] for _ in range(200)]
    given = [draw.choice([draw.choice(right), text(5)]) for right in golds]
    answered = Answered({"y": np.array(given)}, {"y": np.array(given)}, targets={"texts": np.array(golds)})
    exact, f1 = zip(*(script(*pair) for pair in zip(given, golds, strict=True)), strict=True)
    assert ExactMatch().of(answered).value == pytest.approx(np.mean(exact))
    assert AnswerF1().of(answered).value == pytest.approx(np.mean(f1))
    assert 0.1 < np.mean(exact) < np.mean(f1) < 0.95


def script(given: str, golds: list[str]) -> tuple[float, float]:
    """Exact match and F1 of one question as that script computes them."""

    def plain(text: str) -> str:
        text = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
        return " ".join(re.sub(re.compile(r"\b(a|an|the)\b", re.UNICODE), " ", text).split())

    def f1(gold: str) -> float:
        gold_toks, pred_toks = plain(gold).split(), plain(given).split()
        same = sum((collections.Counter(gold_toks) & collections.Counter(pred_toks)).values())
        if len(gold_toks) == 0 or len(pred_toks) == 0:
            return float(gold_toks == pred_toks)
        if same == 0:
            return 0.0
        precision, recall = same / len(pred_toks), same / len(gold_toks)
        return 2 * precision * recall / (precision + recall)

    known = [gold for gold in golds if plain(gold)] or [""]
    return max(float(plain(gold) == plain(given)) for gold in known), max(f1(gold) for gold in known)
