"""Answers in words from scores of characters (CTC), beside what the rule's own definition gives."""

from __future__ import annotations

import itertools
import re
from typing import Any

import jiwer
import numpy as np
import pytest
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.ctc import CtcReader, decoded
from inferbench_tasks.quality.error_rates import CharacterErrors, WordErrors
from inferbench_tasks.quality.squad import ExactMatch

#: Classes 1, 2, 3; 0 is the blank.
CHARACTERS = ("a", "b", " ")


def scores(*paths: list[int]) -> NDArray[np.float32]:
    """Of which the largest are those of these classes."""
    largest: NDArray[np.float32] = np.eye(len(CHARACTERS) + 1, dtype=np.float32)[np.array(paths)]
    return largest


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ([1, 1, 2, 2], "ab"),
        ([1, 0, 1, 1], "aa"),
        ([0, 0, 0, 0], ""),
        ([0, 1, 0, 0], "a"),
        ([1, 2, 1, 2], "abab"),
        ([2, 3, 0, 3], "b  "),
        ([1, 3, 3, 2], "a b"),
    ],
)
def test_repeats_are_merged_then_blanks_dropped(path: list[int], text: str) -> None:
    """A blank between equal ones keeps both; the first class is no character, the last one is."""
    assert CtcReader(CHARACTERS)({"scores": scores(path)}) == np.array([text])


def test_every_path_reads_as_the_definition_has_it() -> None:
    """All of five places: groups of equal classes, one character each."""
    for path in itertools.product(range(4), repeat=5):
        groups = [at for at, _ in itertools.groupby(path)]
        assert decoded(np.array(path), CHARACTERS) == "".join(CHARACTERS[at - 1] for at in groups if at)
    assert decoded(np.array([], dtype=np.int64), CHARACTERS) == ""


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"y": np.zeros((1, 4, 5), np.float32)}, r"places x 4 scores of characters; there are y \[4, 5\]"),
        ({"y": np.zeros((1, 4), np.float32)}, r"there are y \[4\]"),
        ({"y": np.zeros((1, 4, 4), np.int64)}, "one output must be places x 4"),
        ({name: np.zeros((1, 4, 4), np.float32) for name in "yz"}, "there are y .*, z "),
        ({"y": np.full((1, 4, 4), np.nan, np.float32)}, "NaN or infinite"),
        ({"y": np.full((1, 4, 4), -np.inf, np.float32)}, "NaN or infinite"),
    ],
)
def test_what_can_not_be_read_is_not_guessed(outputs: dict[str, NDArray[Any]], message: str) -> None:
    """Another number of characters, whole numbers, two outputs that fit, no numbers: a reason in place of texts."""
    found = CtcReader(CHARACTERS)(outputs)
    assert isinstance(found, str) and re.search(message, found)


def test_error_rates_are_those_of_jiwer() -> None:
    """Of 200 texts read out of random scores."""
    rng = np.random.default_rng(3)
    outputs = {"scores": rng.normal(size=(200, 9, 4)).astype(np.float32)}
    texts = CtcReader(CHARACTERS)(outputs)
    assert not isinstance(texts, str)
    right = rng.choice(["a", "ab", "a b", "bba ab"], 200)
    answered = Answered(outputs, outputs, meaning="values", targets={"texts": right}, texts=texts)
    references, hypotheses = right.tolist(), [text.strip() for text in texts.tolist()]
    assert CharacterErrors().of(answered).value == pytest.approx(jiwer.cer(references, hypotheses))
    assert WordErrors().of(answered).value == pytest.approx(jiwer.wer(references, hypotheses))
    assert ExactMatch().missing(answered) is None
