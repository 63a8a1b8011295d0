"""``evaluate.spans``: how questions become a model's inputs, and scores of starts and ends an answer in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from inferbench_tasks.contracts.spec import RelativePath, Spec
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.finding import Finding

OutputName = Annotated[str, Field(min_length=1, max_length=200)]


class SpansSpec(Spec):
    """How a question and its text become the model's inputs, and its answer is read: of data sets of questions
    (``squad``), with the usual values unless given.

    Question and text are one input of ``max_tokens`` tokens, filled up; a longer text is cut at its end. The answer is
    the part of the text from token s to token e with the largest start score of s + end score of e, of all
    s <= e < s + ``max_answer_tokens`` within the text; of equal ones the first and shortest.
    """

    tokenizer: RelativePath | None = None
    """The model's ``tokenizer.json``, relative to the submission; the one that the model brings unless given."""
    max_tokens: Annotated[int, Field(ge=8, le=8192)] = 384
    """Of question, text and what parts them together; of a model whose inputs have one length it is that length."""
    max_answer_tokens: Annotated[int, Field(ge=1, le=1000)] = 30
    """An answer has no more."""
    no_answer_margin: Annotated[float, Field(ge=-1e6, le=1e6)] = 0.0
    """Where some questions have no answer (SQuAD 2.0): nothing is answered where the first token's start and end score
    are together larger than the best span's by more than this."""
    start: OutputName | None = None
    """The output with the start scores; the only one with ``start`` in its name unless given."""
    end: OutputName | None = None
    """The output with the end scores; the only one with ``end`` in its name unless given."""


def spans_findings(spans: SpansSpec | None, dataset: str | None, abilities: Abilities) -> Iterator[Finding]:
    """Settings that the data set's samples have no use for."""
    if spans is None or (dataset is not None and dataset not in abilities.datasets):
        return
    if dataset is None or abilities.dataset_form(dataset) not in ("questions", None):
        allowed = ", ".join(abilities.datasets_of("questions"))
        message = f"is of questions about texts; take such a data set ({allowed}), or leave spans out"
        yield Finding(("evaluate.spans", "evaluate.dataset"), message)
