"""Measures of quality: values that were worked out by hand, and scikit-learn as an oracle."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, rankdata
from sklearn.metrics import confusion_matrix, f1_score, roc_auc_score, top_k_accuracy_score

from inferbench_tasks.quality import auc as auc_module
from inferbench_tasks.quality.auc import auc, resampled
from inferbench_tasks.quality.base import Answered, decisions, ties
from inferbench_tasks.quality.confusion import confusion
from inferbench_tasks.quality.intervals import share
from inferbench_tasks.quality.judge import judge
from inferbench_tasks.quality.ranks import ranks
from inferbench_tasks.quality.top_k import label_ranks


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


def test_wilsons_interval_is_scipys_to_the_last_digit() -> None:
    """Of no hit, of one, of half, of all but one and of all, among few samples and many."""
    for samples in (1, 2, 3, 7, 10, 53, 450, 5_000, 9_999, 10_000, 1_281_167):
        for hits in {0, 1, samples // 3, samples // 2, samples - 1, samples}:
            quality = share(hits, samples)
            interval = binomtest(hits, samples).proportion_ci(0.95, method="wilson")
            assert (quality.value, quality.low, quality.high) == (hits / samples, interval.low, interval.high)


@pytest.mark.parametrize("levels", [1, 2, 5, 10**9])
def test_ranks_are_scipys(levels: int) -> None:
    """Tied or not, of many values, of one and of none; with a NaN there is no order."""
    rng = np.random.default_rng(levels)
    for size in (0, 1, 2, 300):
        values = np.floor(rng.random(size) * levels) - 0.5 * levels
        assert ranks(values).tolist() == rankdata(values).tolist()
        assert ranks(values.astype(np.float32)).tolist() == rankdata(values.astype(np.float32)).tolist()
    assert np.isnan(ranks(np.array([1.0, np.nan, 2.0]))).all()


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


@pytest.mark.parametrize("levels", [2, 7, 10**9])
def test_resamples_have_the_auc_of_their_rows(monkeypatch: pytest.MonkeyPatch, levels: int) -> None:
    """To the last digit, whether scores are tied or not, and however many draws are worked out at once."""
    rng = np.random.default_rng(levels)
    labels = rng.integers(0, 12, 240)
    scores = np.floor(rng.random((240, 12)) * levels)
    firsts = [np.flatnonzero(labels == name)[0] for name in range(12)]
    draws = [np.append(firsts, rng.integers(0, 240, 300)) for _ in range(9)]
    for at_once in (1, 500, 2_000_000):
        monkeypatch.setattr(auc_module, "_COUNTS_AT_ONCE", at_once)
        assert resampled(scores, labels, draws).tolist() == [
            auc(scores[rows], labels[rows]) for rows in draws
        ]


def test_a_rare_class_leaves_auc_without_an_interval() -> None:
    """Nine samples of a class vary too little when they are drawn anew; ten have an interval."""
    rng = np.random.default_rng(3)
    for rare, reason in ((9, "no interval: a class has fewer than 10 samples"), (10, "bootstrap within")):
        labels = np.repeat([0, 1], [100, rare])
        scores = rng.normal(size=(len(labels), 2))
        quality = judge(answered(scores, labels), ["auc"]).values["auc"]
        assert quality.method.startswith(reason) and (quality.low is None) == (rare < 10)


def test_equal_scores_name_the_first_classes() -> None:
    """Of ten equal scores the first five are the top five, whatever the label is."""
    found = judge(answered(np.zeros((10, 10)), list(range(10))), ["top5_ratio"]).values["top5_ratio"]
    assert found.value == 0.5


def test_a_label_s_rank_is_how_many_classes_go_before_it() -> None:
    """By score, equal ones by their ids; the last of all where scores name no class, or none is the label's. Top-5 is
    of these ranks."""
    scores = np.array(
        [[0.1, 0.7, 0.2], [0.4, 0.4, 0.2], [0.4, 0.4, 0.2], [np.nan, 0.9, 0.1], [0.1, 0.7, 0.2]]
    )
    assert label_ranks(scores, np.array([2, 0, 1, 1, 3])).tolist() == [1, 0, 1, 3, 3]


def test_intervals_hold_their_value() -> None:
    """Each interval has its value inside, and grows narrower with more samples."""
    widths = []
    for samples in (400, 6400):
        scores, labels = drawn(samples=samples)
        values = judge(answered(scores, labels)).values
        assert values.keys() == {"top1_ratio", "top5_ratio", "macro_f1", "auc", "agreement_ratio"}
        for quality in values.values():
            assert quality.low is not None and quality.high is not None
            assert quality.low <= quality.value <= quality.high
        widths.append(values["macro_f1"].high - values["macro_f1"].low)  # type: ignore[operator]
    assert widths[1] < widths[0] / 2


def test_few_samples_of_a_class_have_no_interval_of_macro_f1() -> None:
    """Nineteen of a class are too few, however many there are of the other; the value stands."""
    for fewest, there in ((19, False), (20, True)):
        labels = np.repeat([0, 1], [fewest, 200])
        named = labels.copy()
        named[::7] = 1 - named[::7]
        quality = judge(answered(np.eye(2)[named], labels), ["macro_f1"]).values["macro_f1"]
        assert 0.5 < quality.value < 0.95 and (quality.low is not None) == there
        assert ("a class has fewer than 20 samples" in quality.method) != there


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


def test_classes_are_named_by_the_scores_and_not_by_what_stands_before_them() -> None:
    """Texts and whole numbers of another shape before the scores name nothing; a class's number leaves no tie."""
    scores = np.array([[0.1, 0.9], [0.5, 0.5]])
    texts = {"label": np.array([["b"], ["a"]]), "scores": scores}
    assert decisions(texts, texts).tolist() == [1, 0] and ties(texts, texts) == 1
    mask = {"mask": np.array([[3, 1], [3, 1]], dtype=np.int64), "scores": scores}
    assert decisions(mask, mask).tolist() == [1, 0]
    numbered = {"scores": scores, "label": np.array([1, 1], dtype=np.int64)}
    assert decisions(numbered, numbered).tolist() == [1, 1] and ties(numbered, numbered) == 0
    alone = {"label": texts["label"]}
    assert decisions(alone, alone).tolist() == [-1, -1]


def test_confusion_is_scikit_learns() -> None:
    """Counts by class, with recall and precision, and None where nothing could be divided."""
    labels, named = np.array([0, 0, 1, 3]), np.array([0, 1, 1, -1])
    matrix = confusion(labels, named)
    assert matrix.counts.tolist() == confusion_matrix(labels, named, labels=matrix.classes).tolist()
    by_class = {row["class"]: row for row in matrix.by_class()}
    assert by_class[0]["recall_ratio"] == 0.5 and by_class[0]["precision_ratio"] == 1.0
    assert by_class[-1]["recall_ratio"] is None and by_class[3]["precision_ratio"] is None


def test_two_that_name_no_class_do_not_agree() -> None:
    """Infinite scores on both sides are no decision, so no agreement; a class masked by -inf is one."""
    scores = np.array([[np.inf, 0.0], [np.nan, 1.0], [-np.inf, 1.0]])
    judged = judge(answered(scores, [0, 0, 1]))
    assert judged.values["agreement_ratio"].value == pytest.approx(1 / 3)
    assert judged.values["top1_ratio"].value == pytest.approx(1 / 3)
    assert judged.values["macro_f1"].value == pytest.approx((0 + 1) / 2)


def test_equal_largest_scores_are_counted() -> None:
    """Whoever answers the same for every class is right by the order of classes, which is said."""
    scores = np.array([[0.5, 0.5, 0.0], [0.2, 0.5, 0.3], [0.0, 0.0, 0.0]])
    assert ties({"scores": scores}, {"scores": scores}) == 2


def test_all_right_has_no_interval_by_resampling() -> None:
    """A resample of right answers can't hold a wrong one: no interval of width 0; Wilson's says how far it may be."""
    scores, labels = np.eye(4)[np.arange(40) % 4], np.arange(40) % 4
    values = judge(answered(scores, labels)).values
    assert values["macro_f1"].value == values["auc"].value == 1.0
    assert values["macro_f1"].low is None and values["auc"].low is None
    assert values["top1_ratio"].low == pytest.approx(40 / (40 + 1.959964**2), abs=1e-6)
    assert values["top1_ratio"].high == 1.0


def test_vectors_are_compared_by_their_directions() -> None:
    """Twice as long is the same direction, a right angle is 0, and no class is named."""
    source = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [3.0, 4.0]])
    served = np.array([[2.0, 0.0], [1.0, 0.0], [1.0, 0.0], [3.0, 4.0]])
    judged = judge(Answered({"v": served}, {"v": source}, np.zeros(4, np.int64), "vectors"))
    assert judged.values.keys() == {"cosine_to_source", "neighbours_spearman"}
    assert judged.values["cosine_to_source"].value == pytest.approx((1 + 0 + 0.5**0.5 + 1) / 4)
    assert judged.left_out["agreement_ratio"] == "it is of classes; the model answers vectors"


def test_order_of_neighbours_by_hand() -> None:
    """Cosines of the source's four pairs against those that are served: ranks by hand, ties with their mean."""
    angles = np.radians([0.0, 10.0, 40.0, 100.0])
    other = np.radians([0.0, 30.0, 40.0, 100.0])
    source, served = (np.stack([np.cos(a), np.sin(a)], axis=1) for a in (angles, other))
    # Pairs lie 10, 30, 60, 100 degrees apart in the source and 30, 10, 60, 100 as served: d = 1, 1, 0, 0.
    judged = judge(Answered({"v": served}, {"v": source}, None, "vectors"))
    assert judged.values["neighbours_spearman"].value == pytest.approx(1 - 6 * 2 / (4 * 15))


def test_values_are_compared_by_the_largest_difference() -> None:
    """Of 0.5 in 4 over one output and none over the other: 0.125, whatever the largest index is."""
    source = {"boxes": np.array([[0.0, 4.0], [2.0, 1.0]]), "count": np.array([[1], [2]])}
    served = {"boxes": np.array([[0.5, 4.0], [2.0, 1.0]]), "count": np.array([[1], [2]])}
    judged = judge(Answered(served, source, None, "values"))
    assert judged.values.keys() == {"largest_difference_ratio"}
    assert judged.values["largest_difference_ratio"].value == 0.125


def test_a_share_of_nothing_is_refused() -> None:
    """No samples, no figure."""
    with pytest.raises(ValueError, match="no samples"):
        share(0, 0)
