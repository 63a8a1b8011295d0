"""``squad``: questions about texts in SQuAD's layout, 1.1 or 2.0, as they lie at the user's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.dataset import MAX_BYTES
from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.datasets.json_file import entries, read, text
from inferbench_tasks.errors import InputError

_FIELD = "evaluate.path"
MAX_QUESTIONS = 1_000_000


@dataclass(frozen=True)
class Question:
    """``answers``: each right one once, () of a question without an answer."""

    id: str
    question: str
    context: str
    answers: tuple[str, ...]


class Squad(DataSource):
    """Several right answers of a question count as one each; one without an answer is right where nothing is said."""

    title = "Questions about texts in SQuAD's layout: your dev-v1.1.json or dev-v2.0.json"
    origin = "yours"
    licence = "yours"
    form = "questions"
    takes_path = True

    def open(self, path: Path | None) -> Collection:
        assert path is not None
        if not path.is_file():
            raise InputError(f"{path.name} is no file; give SQuAD's JSON (dev-v1.1.json)", field=_FIELD)
        questions = list(_questions(path))
        if not questions:
            raise InputError(f"{path.name} has no question", field=_FIELD)
        most = max(len(one.answers) for one in questions)
        longest = max((len(answer) for one in questions for answer in one.answers), default=0)
        if not longest:
            raise InputError(f"{path.name}: no question has an answer; needed is one at least", field=_FIELD)
        if len(questions) * most * longest * 4 > MAX_BYTES:
            raise InputError(
                f"{path.name} has {len(questions):,} questions with up to {most} answers of up to {longest:,} "
                f"characters, which together are more than {MAX_BYTES:,} bytes; take some out",
                field=_FIELD,
            )
        texts = np.array(
            [[*one.answers, *[""] * (most - len(one.answers))] for one in questions], dtype=np.str_
        )
        unanswerable = sum(not one.answers for one in questions)
        return Collection(
            path.stem, "questions", len(questions),
            lambda rows: [(questions[int(at)].question, questions[int(at)].context) for at in rows], None,
            targets={"texts": texts}, unanswerable=unanswerable > 0,
            counts={"texts": len({one.context for one in questions}), "unanswerable": unanswerable},
        )  # fmt: skip


def _questions(path: Path) -> Iterator[Question]:
    """Each question with its text; InputError with its place in the file, and what is needed there."""
    places: dict[str, str] = {}
    for about, article in entries(read(path, _FIELD), "data", path.name, _FIELD):
        for place, paragraph in entries(article, "paragraphs", about, _FIELD):
            context = text(paragraph, "context", place, _FIELD)
            for here, entry in entries(paragraph, "qas", place, _FIELD):
                name = text(entry, "id", here, _FIELD)
                if name in places:
                    raise InputError(f"{here}: the id {name!r} is that of {places[name]}, too", field=_FIELD)
                if len(places) >= MAX_QUESTIONS:
                    raise InputError(f"{path.name} has more than {MAX_QUESTIONS:,} questions", field=_FIELD)
                places[name] = here
                question = text(entry, "question", here, _FIELD)
                yield Question(name, question, context, _answers(entry, here, context))


def _answers(entry: Mapping[str, Any], here: str, context: str) -> tuple[str, ...]:
    impossible = entry.get("is_impossible", False)
    if not isinstance(impossible, bool):
        raise InputError(
            f"{here}: is_impossible must be true or false; got {impossible!r}"[:300], field=_FIELD
        )
    answers = []
    for place, answer in entries(entry, "answers", here, _FIELD):
        answers.append(text(answer, "text", place, _FIELD))
        if answers[-1] not in context:
            raise InputError(
                f"{place}: {answers[-1][:80]!r} does not stand in the text of its paragraph, so that no part of it is "
                f"ever right",
                field=_FIELD,
            )
    if impossible and answers:
        raise InputError(
            f"{here}: is_impossible is true, and there are answers; needed is one of both", field=_FIELD
        )
    if not impossible and not answers:
        raise InputError(
            f"{here}: there is no answer; needed is one at least, or is_impossible: true (of SQuAD's hidden test set "
            f"there are none)",
            field=_FIELD,
        )
    return tuple(dict.fromkeys(answers))
