"""Runs of the same samples, in pairs."""

from __future__ import annotations

import numpy as np

from inferbench_tasks.analysis.report import pairs
from inferbench_tasks.contracts.named_classes import NO_CLASS


def test_an_answer_that_names_no_class_agrees_with_nothing() -> None:
    """As in ``agreement_ratio``: where the source model names none, nobody can agree with it."""
    answered = pairs._Answered(np.arange(3), np.array([NO_CLASS, 1, 2]), np.array([NO_CLASS, 1, 3]))
    assert answered.right.tolist() == [False, True, False]
