"""Laws of lengths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.target import parse_lengths
from inferbench_tasks.submission.token_lengths import lengths_of


def draw(text: str, count: int = 20_000) -> Any:
    """So many of the law that is written like that."""
    return lengths_of(parse_lengths(text, "--x"), "--x").draw(count, np.random.default_rng(1))


def test_a_number_is_a_fixed_length() -> None:
    """So is ``fixed:64``."""
    assert set(draw("64")) == set(draw("fixed:64")) == set(draw("{kind: fixed, value: 64}")) == {64}


def test_uniform_has_both_ends() -> None:
    """And nothing beyond."""
    assert set(draw("uniform:min=3,max=5").tolist()) == {3, 4, 5}


@pytest.mark.parametrize("kind", ["normal", "lognormal"])
def test_mean_and_cv_are_those_asked_for(kind: str) -> None:
    """Within five standard errors, where no bound cuts."""
    values = draw(f"{kind}:mean=1000,cv=0.2")
    assert abs(values.mean() - 1000) < 5 * 200 / len(values) ** 0.5
    assert abs(values.std() / values.mean() - 0.2) < 5 * 0.2 / len(values) ** 0.5


def test_bounds_cut(tmp_path: Path) -> None:
    """To whole lengths within them."""
    values = draw("lognormal:mean=200,cv=0.8,min=16,max=300")
    assert (values.min(), values.max()) == (16, 300)


def test_empirical_lengths_are_the_files(tmp_path: Path) -> None:
    """By a column of a CSV or a number on each line; a line that is none is told by its number."""
    (tmp_path / "a.csv").write_text("in,out\n5,6\n7,8\n")
    assert set(draw(f"empirical:path={tmp_path}/a.csv,column=out").tolist()) == {6, 8}
    (tmp_path / "b.txt").write_text("5\nx\n")
    with pytest.raises(InputError, match="line 2: 'x'"):
        draw(f"empirical:path={tmp_path}/b.txt")
    with pytest.raises(InputError, match="no column 'other'"):
        draw(f"empirical:path={tmp_path}/a.csv,column=other")
    with pytest.raises(InputError, match="can't be read: it is no plain file"):
        draw("empirical:path=/dev/zero")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("normal:mean=5,min=10", "not between"),
        ("uniform:min=5,max=3", "below min"),
        ("fixed:0", "greater than or equal to 1"),
        ("fixed:1,more=2", "more"),
        ("cauchy:3", "cauchy"),
        ("uniform:min=1", "max"),
    ],
)
def test_what_is_no_law_is_told_with_its_option(text: str, words: str) -> None:
    """What is wrong and where."""
    with pytest.raises(InputError, match=words):
        draw(text)
