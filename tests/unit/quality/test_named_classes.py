"""Scores of a model's own classes as the classes of a data set."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.contracts.named_classes import NO_CLASS, NamedClasses
from inferbench_tasks.errors import InputError
from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.judge import judge
from inferbench_tasks.quality.named_classes import ClassReader, reader_of

CLASSES = NamedClasses(
    names=("bzip", "csv", "noise", "randomtxt", "txt"),
    said_as=("bzip", "csv", "unknown", "txt", "txt"),
    least=(0.5, 0.9, 0.5, 0.5, 0.5),
    else_said=("unknown", "txt", "unknown", "txt", "txt"),
    called={"bzip2": "bzip"},
    rule="a rule",
)
WANTED = ("txt", "csv", "bzip2")
SCORES = np.array(
    [
        [0.0, 0.1, 0.0, 0.7, 0.2],  # random text is text
        [0.0, 0.8, 0.1, 0.0, 0.1],  # a guess that the rule does not trust becomes text
        [0.4, 0.0, 0.3, 0.2, 0.1],  # and of bytes nothing
        [0.1, 0.0, 0.9, 0.0, 0.0],  # none of the data set's
        [np.nan, 0.0, 0.0, 0.0, 0.0],
    ],
    dtype=np.float32,
)
LABELS = np.array([0, 1, 2, 2, 0])


def reader() -> ClassReader:
    """Of the classes above."""
    return reader_of(CLASSES, WANTED, "files")


def test_names_lead_from_the_models_classes_to_the_data_sets() -> None:
    """Two of the model's are text; what is none of the data set's has a number of its own below that of no class."""
    read = reader()({"scores": SCORES})
    assert read["class"].tolist() == [0, 1, 2, -4, NO_CLASS]
    assert read["own_decision"].tolist() == [0, 0, NO_CLASS, -4, NO_CLASS]
    assert read["scores"][0].tolist() == pytest.approx([0.7, 0.1, 0.0, 0.0])
    assert reader()({}) == {}


def test_the_best_guess_and_the_own_rule_are_measured_apart() -> None:
    """Macro F1 is over the data set's classes alone. Two that are none of them agree, two without any class don't."""
    read = reader()({"scores": SCORES})
    found = judge(
        Answered(read, read, LABELS), ["top1_ratio", "own_decision_ratio", "macro_f1", "agreement_ratio"]
    )
    values = {name: quality.value for name, quality in found.values.items()}
    assert values["top1_ratio"] == 3 / 5 and values["own_decision_ratio"] == 1 / 5
    assert values["macro_f1"] == pytest.approx((2 / 3 + 1 + 2 / 3) / 3)
    assert values["agreement_ratio"] == 4 / 5


def test_a_model_without_a_rule_has_no_such_figure() -> None:
    """It says why."""
    scores = {"scores": SCORES[:4]}
    found = judge(Answered(scores, scores, LABELS[:4]), ["own_decision_ratio"])
    assert "no rule of its own" in found.left_out["own_decision_ratio"]


def test_a_class_that_the_model_never_names_is_refused() -> None:
    """It could never be right."""
    with pytest.raises(
        InputError, match="has the classes xz, which the model never names; it names bzip, csv"
    ):
        reader_of(CLASSES, ("csv", "xz"), "files")


def test_two_classes_that_are_one_of_the_models_are_refused() -> None:
    """It answers both alike: one of them would always be wrong."""
    with pytest.raises(InputError, match="the classes bzip2 and bzip, which the model both calls bzip"):
        reader_of(CLASSES, ("bzip2", "csv", "bzip"), "files")
