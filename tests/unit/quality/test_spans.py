"""Answers in words from scores of starts and ends, beside what all spans tried one by one give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.spans import SpanReader
from inferbench_tasks.quality.squad import AnswerF1, ExactMatch

TEXT = "aa bb cc dd"
#: Two tokens of the question, four of the text, one that ends it.
PLACES = np.array([[[-1, -1], [-1, -1], [0, 2], [3, 5], [6, 8], [9, 11], [-1, -1]]], dtype=np.int32)


def reader(most: int = 3, margin: float | None = None, count: int = 1) -> SpanReader:
    return SpanReader(np.repeat(PLACES, count, axis=0), [TEXT] * count, most, margin)


def scores(start: list[float], end: list[float]) -> dict[str, NDArray[Any]]:
    return {"start_logits": np.array([start], dtype=float), "end_logits": np.array([end], dtype=float)}


def by_trying(start: NDArray[Any], end: NDArray[Any], most: int, margin: float | None) -> str:
    """Every span within the text, one by one."""
    best, text = -np.inf, ""
    for first in range(2, 6):
        for last in range(first, min(first + most, 6)):
            if start[first] + end[last] > best:
                best = start[first] + end[last]
                text = TEXT[PLACES[0, first, 0] : PLACES[0, last, 1]]
    return "" if margin is not None and start[0] + end[0] - best > margin else text


@pytest.mark.parametrize("most", [1, 2, 3, 9])
@pytest.mark.parametrize("margin", [None, 0.0, 1.5])
def test_the_answer_is_the_best_of_all_spans(most: int, margin: float | None) -> None:
    """Of 300 samples, more than are looked at together would be of longer texts; whole numbers make ties."""
    rng = np.random.default_rng(most)
    start, end = (rng.integers(-3, 4, (300, 7)).astype(np.float32) for _ in range(2))
    found = reader(most, margin, 300)({"start_logits": start, "end_logits": end})
    assert not isinstance(found, str)
    assert found.tolist() == [by_trying(*pair, most, margin) for pair in zip(start, end, strict=True)]
    assert len(set(found.tolist())) > 3


def test_samples_are_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at a time give what all together give."""
    rng = np.random.default_rng(4)
    outputs = {f"{name}_logits": rng.normal(size=(7, 7)) for name in ("start", "end")}
    whole = reader(3, 0.0, 7)(outputs)
    monkeypatch.setattr("inferbench_tasks.quality.spans._SUMS", 2 * 7 * 3)
    assert np.array_equal(reader(3, 0.0, 7)(outputs), whole)


def test_no_answer_reaches_into_the_question_or_ends_before_it_starts() -> None:
    """The largest scores lie outside of the text, and backwards."""
    given = scores([9, 9, 0, 0, 3, 0, 9], [9, 9, 5, 0, 0, 1, 9])
    assert reader()(given) == np.array(["aa"])
    assert reader()(scores([0, 0, -9, -9, 3, 0, 0], [0, 0, 5, 0, 0, 1, 0])) == np.array(["cc dd"])


def test_nothing_is_answered_where_the_first_token_says_so() -> None:
    """Only of data with questions without an answer; the margin moves the bound; masked scores are no answer."""
    given = scores([3, 0, 2, 0, 0, 0, 0], [2, 0, 2, 0, 0, 0, 0])
    assert reader()(given) == np.array(["aa"])
    assert reader(margin=0.0)(given) == np.array([""])
    assert reader(margin=1.0)(given) == np.array(["aa"])
    masked = [-np.inf] * 7
    assert reader()(scores(masked, masked)) == np.array([""])


@pytest.mark.parametrize(
    ("outputs", "names", "message"),
    [
        ({"a": 1, "b": 2}, {}, "which output has the start scores can't be told of a, b; name it"),
        ({"start": 1, "restart": 1, "end": 2}, {}, "the start scores can't be told of end, restart, start"),
        ({"a": 1, "b": 2}, {"start": "a", "end": "c"}, "the model has no output c; it has a, b"),
    ],
)
def test_outputs_that_are_not_told_are_not_guessed(
    outputs: dict[str, int], names: dict[str, str], message: str
) -> None:
    """Names say which is which, the model's or the submission's."""
    found = replace(reader(), start=names.get("start"), end=names.get("end"))(
        {name: np.zeros((1, 7)) for name in outputs}
    )
    assert isinstance(found, str) and message in found


def test_scores_of_another_kind_are_no_answer() -> None:
    """Another length, whole numbers, NaN: there is no figure then, with the reason."""
    start = np.zeros((1, 7))
    for end, message in (
        (np.zeros((1, 6)), "a number for each of 7 tokens, not 6"),
        (np.zeros((1, 7), np.int64), "a number for each of 7 tokens"),
        (np.full((1, 7), np.nan), "NaN or infinite"),
    ):
        outputs = {"start": start, "end": end}
        found = reader()(outputs)
        assert isinstance(found, str) and message in found
        answered = Answered(outputs, outputs, targets={"texts": np.array([["aa"]])}, texts=found)
        assert message in str(ExactMatch().missing(answered))


def test_what_was_read_is_what_is_judged() -> None:
    """Beside outputs that are numbers; the best of several right answers, nothing where nothing is right."""
    outputs = {"start": np.zeros((3, 7)), "end": np.zeros((3, 7))}
    texts = np.array(["The cat!", "", "bb cc"])
    right = np.array([["a dog", "cat"], ["", ""], ["cc", "dd"]])
    answered = Answered(outputs, outputs, meaning="values", targets={"texts": right}, texts=texts)
    assert ExactMatch().missing(answered) is None
    assert ExactMatch().of(answered).value == pytest.approx(2 / 3)
    assert AnswerF1().of(answered).value == pytest.approx((1 + 1 + 2 / 3) / 3)
