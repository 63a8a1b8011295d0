"""What can't be measured of a model on a data set is told by what both say of themselves, before either is there."""

from __future__ import annotations

import pytest

from inferbench_tasks.contracts.models import ModelSource
from inferbench_tasks.modelrepo.zoo import ZOO
from inferbench_tasks.quality.beforehand import unfit_classes, unfit_measures


def source(name: str) -> ModelSource:
    """A built-in model, which is not made."""
    return ZOO.load(name)(name, None)


@pytest.mark.parametrize(
    ("model", "dataset", "measure", "words"),
    [
        ("digits", None, "top5_ratio", None),
        (
            "digits",
            None,
            "mean_iou",
            "on the model's own data with this model: the data set has no target_masks",
        ),
        ("digits", "digits", "auc", None),
        ("digits", "digits", "psnr_db", "on digits with this model: the data set has no target_pictures"),
        ("digits", "shapes", "mean_iou", None),
        ("digits", "shapes", "exact_match_ratio", "the data set has no target_texts"),
        ("digits", "words", "word_error_ratio", None),  # whether the model reads texts its file alone tells
        ("digits", "folder", "mean_iou", None),  # the user's files alone tell what they have
        ("digits", "arrays", "target_spearman", None),
        ("digits", None, "cosine_to_source", "it is of vectors; the model answers classes"),
        ("digits", "folder", "own_decision_ratio", "the model has no rule of its own"),
        ("magika", "file-types", "own_decision_ratio", None),
        ("all-minilm-l6-v2", None, "cosine_to_source", None),
        ("all-minilm-l6-v2", None, "top1_ratio", "it is of classes; the model answers vectors"),
        ("ppocr-recognition", "words", "character_error_ratio", None),
        ("mobilenet_v2", "digits", "agreement_ratio", None),
        ("mobilenet_v2", "digits", "top1_ratio", "its weights are random"),
        ("mobilenet_v2", "shapes", "psnr_db", "its weights are random"),
    ],
)
def test_a_measure_that_is_certain_not_to_fit_is_refused(
    model: str, dataset: str | None, measure: str, words: str | None
) -> None:
    """With the reason that the answers would give later, and what may fit; nothing that may fit is refused."""
    found = unfit_measures(source(model), dataset, [measure])
    assert found.keys() == ({measure} if words else set())
    if words:
        assert found[measure].startswith(f"{measure} can't be had on ") and words in found[measure]
        assert "Measures that may fit: agreement_ratio" in found[measure] or "minilm" in model


def test_a_model_s_own_rule_is_offered_only_where_it_has_one() -> None:
    """Among the measures that may fit."""
    for model, offered in (("digits", False), ("magika", True)):
        (reason,) = unfit_measures(source(model), "file-types", ["psnr_db"]).values()
        assert ("own_decision_ratio" in reason) == offered


@pytest.mark.parametrize(
    ("model", "dataset", "words"),
    [
        ("fashion-mnist", "mnist-5k", "class 0 of mnist-5k is '0', and 'T-shirt/top' of fashion-mnist"),
        ("fashion-mnist", "fashion-mnist", None),
        ("digits", "digits-png", None),
        ("digits", "fashion-mnist", "class 0 of fashion-mnist is 'T-shirt/top', and '0' of digits"),
        ("digits", "file-types", "classes, digits scores 10: they are not the same"),
        ("efficientnet-lite0", "digits", "digits has 10 classes, efficientnet-lite0 scores 1000"),
        ("mobilenet_v2", "digits", None),  # random weights: labels are not used
        ("breast-cancer-trees", "shapes", None),  # held to boxes and masks instead
        ("ppocr-recognition", "words", None),
        ("magika", "file-types", None),  # by the names of its classes, which its file has
        ("digits", "folder", None),
    ],
)
def test_labels_that_are_no_classes_of_the_model_are_refused(
    model: str, dataset: str, words: str | None
) -> None:
    """By their names, by their number where the model's have none; nothing is refused that may fit."""
    found = unfit_classes(source(model), dataset)
    assert (found is None) == (words is None)
    assert words is None or (found is not None and words in found)
