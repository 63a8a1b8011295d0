"""Exact match and F1 of answers in words, normalised as SQuAD's evaluation does (version 2.0, P. Rajpurkar et al.)."""

from __future__ import annotations

import re
import string
from abc import abstractmethod
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.targets import MeanMeasure, Parts
from inferbench_tasks.quality.texts import answers, right_ones, why_not

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """Lower case, without ASCII punctuation, English articles and more than one space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


class _Squad(MeanMeasure):
    """The best over the right answers of a sample. One of which nothing is left is right only where no other is."""

    target = "texts"

    def unfit(self, answered: Answered, targets: NDArray[Any]) -> str | None:
        return why_not(answered, targets, several=True)

    def parts(self, answered: Answered) -> Parts:
        given = answers(answered)
        assert isinstance(given, list)
        parts = []
        for text, golds in zip(given, right_ones(answered.targets[self.target]), strict=True):
            known = [gold for gold in map(normalised, golds) if gold] or [""]
            parts.append(np.array([max(self.one(normalised(text), gold) for gold in known)]))
        return parts

    @abstractmethod
    def one(self, text: str, gold: str) -> float:
        """How right a text is; both normalised."""


class ExactMatch(_Squad):
    """The share of samples whose answer is one of the right ones."""

    title = "Exact match of the answer"
    formula = "samples whose answer, normalised as SQuAD does, is one of the right ones / samples"

    def one(self, text: str, gold: str) -> float:
        return float(text == gold)


class AnswerF1(_Squad):
    """The harmonic mean of precision and recall of an answer's words."""

    title = "F1 of the answer's words"
    formula = "mean over samples of the best over right answers of 2 c / (words of answer + of right), c: common words"

    def one(self, text: str, gold: str) -> float:
        words, right = text.split(), gold.split()
        if not words or not right:
            return float(words == right)
        return 2 * sum((Counter(words) & Counter(right)).values()) / (len(words) + len(right))
