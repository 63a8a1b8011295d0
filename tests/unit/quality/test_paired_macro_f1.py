"""Macro F1 in pairs by multinomial draws: its value by hand, its interval as by drawing the samples one by one."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.quality.macro_f1 import of_classes
from inferbench_tasks.quality.paired_bootstrap import paired_bootstrap
from inferbench_tasks.quality.paired_macro_f1 import paired_macro_f1


def test_the_difference_by_hand() -> None:
    """Labels 0 0 1 1 thrice. The first is right: 1. The second says 0 0 0 1: F1 of 0 is 2 2 / (2 + 3) = 0.8, of 1 it is
    2 1 / (2 + 1) = 2/3, their mean 0.7333. An answer that names no class is a miss: 0 0 -1 1 has 1 and 2/3.
    """
    labels = np.tile([0, 0, 1, 1], 3)
    assert paired_macro_f1(labels, labels, np.tile([0, 0, 0, 1], 3)).value == pytest.approx(
        0.73333 - 1, abs=1e-4
    )
    assert paired_macro_f1(labels, labels, np.tile([0, 0, -1, 1], 3)).value == pytest.approx(
        0.83333 - 1, abs=1e-4
    )


def test_equal_answers_have_no_interval() -> None:
    """All draws are 0: p is 1."""
    labels = np.tile([0, 1, 2], 5)
    found = paired_macro_f1(labels, labels, labels)
    assert (found.value, found.low, found.high, found.p_value) == (0.0, None, None, 1.0)


def test_the_interval_is_that_of_samples_drawn_one_by_one() -> None:
    """Of 400 samples of five classes, right in about 0.8 and 0.7: both ways within a tenth of the width."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 5, 400)
    first, second = (np.where(rng.random(400) < p, labels, rng.integers(-1, 5, 400)) for p in (0.8, 0.7))
    slow = paired_bootstrap(
        400, lambda rows: (of_classes(labels[rows], first[rows]), of_classes(labels[rows], second[rows]))
    )
    quick = paired_macro_f1(labels, first, second)
    assert quick.value == pytest.approx(slow.value)
    assert slow.low is not None and slow.high is not None
    width = slow.high - slow.low
    assert quick.low == pytest.approx(slow.low, abs=width / 10)
    assert quick.high == pytest.approx(slow.high, abs=width / 10)
