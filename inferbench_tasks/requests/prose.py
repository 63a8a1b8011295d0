"""English prose of so many tokens: by a server's own tokenizer where it is known, else by a word's average."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from inferbench_tasks.requests.sentences import sentences

#: Tokens of a word of English prose, in vocabularies of byte pairs of 30,000 to 150,000 entries.
TOKENS_PER_WORD = 1.3
_WORD = "the"

Count = Callable[[Sequence[str]], list[int]]


class Prose(ABC):
    """Words, and texts made of them. A text's ``lead`` is what it begins with, whose tokens are among its own."""

    def __init__(self) -> None:
        self.words = " ".join(sentences()).split()

    @abstractmethod
    def take(self, start: int, tokens: int, lead: str = "", *, behind: bool = False) -> str:
        """So many tokens of words from ``start`` on, one word at least. ``behind``: another text stands before it."""

    @abstractmethod
    def fit(self, words: Sequence[str], tokens: int, lead: str = "") -> str:
        """Of these words as many as so many tokens have, and others behind them where they are too few."""

    def following(self, start: int, count: int) -> list[str]:
        """So many words from there on, the first ones again after the last."""
        if count <= 0:
            return []
        return (self.words * ((start + count) // len(self.words) + 1))[start : start + count]


class Estimated(Prose):
    """Lengths are aimed at: what they really are, only the server can say."""

    def take(self, start: int, tokens: int, lead: str = "", *, behind: bool = False) -> str:
        return " ".join([*_given(lead), *self.following(start, _words(tokens, lead))])

    def fit(self, words: Sequence[str], tokens: int, lead: str = "") -> str:
        wanted = _words(tokens, lead)
        return " ".join([*_given(lead), *words[:wanted], *self.following(0, wanted - len(words))])


class Counted(Prose):
    """Lengths are exact, but for a lead with a word behind it that has more tokens than were asked for.

    Tokenizers of byte pairs never join a word to the one before it: each is counted by what it adds behind another
    one, and a text's tokens are the sum. What is left below a whole word is filled with the shortest ones, of one token
    nearly always (a tokenizer of letters has none, and texts end short of a word).
    """

    def __init__(self, count: Count) -> None:
        super().__init__()
        self._count = count
        distinct = list(dict.fromkeys(self.words))
        self._tokens = dict(zip(distinct, self._behind(distinct), strict=True))
        self._least = max(1, min(self._tokens.values()))
        self._short = [word for word in self.words if self._tokens[word] <= self._least]
        self._rounds = self.words * 2  # so that a text from any word on may be as long as all of them
        self._sums = np.cumsum([0, *(self._tokens[word] for word in self._rounds)])

    def take(self, start: int, tokens: int, lead: str = "", *, behind: bool = False) -> str:
        first = lead or self.words[start]
        left = tokens - self._first(first, behind=behind)
        begin = start if lead else start + 1
        end = max(begin, int(np.searchsorted(self._sums, self._sums[begin] + left, "right")) - 1)
        said = [first, *self._rounds[begin:end]]
        left -= int(self._sums[end] - self._sums[begin])
        return self._filled(said, left, start, at_least=2 if lead else 1)

    def fit(self, words: Sequence[str], tokens: int, lead: str = "") -> str:
        first, *rest = [*_given(lead), *words] or [self._short[0]]
        left = tokens - self._first(first, behind=False)
        said = [first]
        for word in rest:
            if word not in self._tokens:
                self._tokens[word] = self._behind([word])[0]
            if self._tokens[word] > left:
                break
            said.append(word)
            left -= self._tokens[word]
        return self._filled(said, left, 0, at_least=2 if lead else 1)

    def _first(self, text: str, *, behind: bool) -> int:
        return self._behind([text])[0] if behind else self._count([text])[0]

    def _behind(self, texts: Sequence[str]) -> list[int]:
        """What each adds behind a word: some tokenizers put a blank of their own before all that they are given."""
        alone, *together = self._count([_WORD, *(f"{_WORD} {text}" for text in texts)])
        return [tokens - alone for tokens in together]

    def _filled(self, said: list[str], left: int, start: int, *, at_least: int) -> str:
        more = max(left // self._least, at_least - len(said), 0)
        at = start % len(self._short)
        rounds = (at + more) // len(self._short) + 1
        return " ".join([*said, *(self._short * rounds)[at : at + more]])


def _given(lead: str) -> list[str]:
    return [lead] if lead else []


def _words(tokens: int, lead: str) -> int:
    """A lead counts as a word."""
    return max(1, round(tokens / TOKENS_PER_WORD) - bool(lead))
