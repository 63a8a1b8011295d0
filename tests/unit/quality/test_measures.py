"""Measures of quality: values that were worked out by hand, and scikit-learn as an oracle."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, f1_score, roc_auc_score, top_k_accuracy_score

from inferbench_tasks.quality.auc import auc
from inferbench_tasks.quality.base import MEASURES, Answered, decisions
from inferbench_tasks.quality.confusion import confusion
from inferbench_tasks.quality.intervals import share
from inferbench_tasks.quality.judge import judge


def answered(
    scores: NDArray[np.float64],
    labels: list[int] | NDArray[np.int64] | None,
    source: NDArray[np.float64] | None = None,
) -> Answered:
    """Answers of one output, by default those of the source too."""
    known = None if labels is None else np.asarray(labels, dtype=np.int64)
    return Answered({"scores": scores}, {"scores": scores if source is None else source}, known)


def drawn(classes: int = 8, samples: int = 300) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Scores that say something of the labels, and labels."""
    rng = np.random.default_rng(7)
    labels = rng.integers(0, classes, samples)
    scores = rng.normal(size=(samples, classes))
    scores[np.arange(samples), labels] += 1.5
    return scores, labels


def test_top_1_of_four() -> None:
    """Three of four right is 0.75, with Wilson's interval as published tables have it."""
    scores = np.eye(4)[[0, 1, 2, 0]]
    quality = judge(answered(scores, [0, 1, 2, 3]), ["top1_ratio"]).values["top1_ratio"]
    assert quality.value == 0.75
    assert quality.low == pytest.approx(0.3006, abs=1e-4)
    assert quality.high == pytest.approx(0.9544, abs=1e-4)


def test_measures_are_those_of_scikit_learn() -> None:
    """Top-5, macro F1 and AUC agree with scikit-learn's on scores without ties."""
    scores, labels = drawn()
    values = {name: q.value for name, q in judge(answered(scores, labels)).values.items()}
    assert values["top5_ratio"] == pytest.approx(top_k_accuracy_score(labels, scores, k=5))
    assert values["macro_f1"] == pytest.approx(f1_score(labels, scores.argmax(axis=1), average="macro"))
    per_class = [roc_auc_score(labels == name, scores[:, name]) for name in range(8)]
    assert values["auc"] == pytest.approx(float(np.mean(per_class)))


def test_ties_count_half_in_auc() -> None:
    """Scores that say nothing give one half, as Hanley and McNeil count ties."""
    assert auc(np.ones((6, 2)), np.array([0, 1, 0, 1, 0, 1])) == 0.5


def test_equal_scores_name_the_first_classes() -> None:
    """Of ten equal scores the first five are the top five, whatever the label is."""
    found = judge(answered(np.zeros((10, 10)), list(range(10))), ["top5_ratio"]).values["top5_ratio"]
    assert found.value == 0.5


def test_intervals_hold_their_value() -> None:
    """Each interval has its value inside, and grows narrower with more samples."""
    widths = []
    for samples in (100, 1600):
        scores, labels = drawn(samples=samples)
        values = judge(answered(scores, labels)).values
        assert values.keys() == set(MEASURES)
        for quality in values.values():
            assert quality.low is not None and quality.high is not None
            assert quality.low <= quality.value <= quality.high
        widths.append(values["macro_f1"].high - values["macro_f1"].low)  # type: ignore[operator]
    assert widths[1] < widths[0] / 2


def test_agreement_is_no_accuracy() -> None:
    """Two models that err alike agree wholly; without labels agreement is all that there is."""
    scores = np.eye(3)[[0, 0, 0]]
    both = judge(answered(scores, [0, 1, 2]))
    assert both.values["agreement_ratio"].value == 1.0
    assert both.values["top1_ratio"].value == pytest.approx(1 / 3)
    alone = judge(answered(scores, None))
    assert alone.values.keys() == {"agreement_ratio"}
    assert alone.left_out["top1_ratio"] == "the data set has no labels"


def test_scores_that_are_no_numbers_are_never_right() -> None:
    """A NaN among the scores names no class, so that label 0 is not right by chance."""
    scores = np.array([[np.nan, 0.1], [0.9, 0.1]])
    judged = judge(answered(scores, [0, 0], np.ones((2, 2))))
    assert judged.values["top1_ratio"].value == 0.5
    assert judged.left_out["auc"] == "some scores are no finite numbers"


def test_classes_are_taken_as_they_are_named() -> None:
    """A classifier that answers class ids beside probabilities is judged by the ids."""
    outputs = {"label": np.array([[4], [2]], dtype=np.int64), "scores": np.eye(5)[[0, 0]]}
    assert decisions(outputs, outputs).tolist() == [4, 2]


def test_confusion_is_scikit_learns() -> None:
    """Counts by class, with recall and precision, and None where nothing could be divided."""
    labels, named = np.array([0, 0, 1, 3]), np.array([0, 1, 1, -1])
    matrix = confusion(labels, named)
    assert matrix.counts.tolist() == confusion_matrix(labels, named, labels=matrix.classes).tolist()
    by_class = {row["class"]: row for row in matrix.by_class()}
    assert by_class[0]["recall_ratio"] == 0.5 and by_class[0]["precision_ratio"] == 1.0
    assert by_class[-1]["recall_ratio"] is None and by_class[3]["precision_ratio"] is None


def test_a_share_of_nothing_is_refused() -> None:
    """No samples, no figure."""
    with pytest.raises(ValueError, match="no samples"):
        share(0, 0)
