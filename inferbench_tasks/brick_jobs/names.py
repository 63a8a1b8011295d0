"""By which names the models of cuts are to be had now, and which of their cuts count: one rule for nights, for what is
missing, and for predictions by name.

A model is what it was made from, not what it was called when it was cut: a file that was registered later goes by the
registered name, and what only an older version of a registered model consists of counts for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inferbench_tasks.brick_jobs.documents import Shapes, made_of
from inferbench_tasks.brick_jobs.made_from import made_from_card
from inferbench_tasks.brick_jobs.spec import PRECISIONS
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.modelrepo.card import ModelCard
from inferbench_tasks.modelrepo.zoo import ZOO

#: What is asked for of a model, at each of the sizes of its free inputs: of each the newest cut counts.
_OF = ("batch_size", "granularity", "precision", "runtime", "view", "instruction_set")
#: What cuts of before some of these were kept are of.
_BEFORE = {"precision": "fp32", "runtime": DEFAULT, "view": "runtime"}
#: What ``current`` needs of a document.
FIELDS = ("model", "made_from", "sources", *_OF)
#: The order in which it takes them.
NEWEST_FIRST = (("cut_at", -1), ("created_at", -1))


class Names:
    """Of registered models, ``cards``: the newest version of each."""

    def __init__(self, cards: Iterable[ModelCard]) -> None:
        self._registered: set[str] = set()
        self._by_key: dict[str, set[str]] = {}
        for card in cards:
            self._registered.add(card.name)
            for precision in PRECISIONS:
                self._by_key.setdefault(made_from_card(card, precision), set()).add(card.name)

    def of(self, cut: Mapping[str, Any]) -> set[str]:
        """The names under which the model of a document is to be had. Empty where it is an older version's only; the
        name that it was cut under where nobody registered it since."""
        return {name for name, _ in self._each(cut)}

    def _each(self, cut: Mapping[str, Any]) -> set[tuple[str, Shapes]]:
        """These names, each with the sizes of its free inputs."""
        made = made_of(cut)
        each = {(name, one.shapes) for one in made for name in self._by_key.get(one.source, ())}
        if cut["model"] not in self._registered and (cut["model"] in ZOO or not each):
            own = [one for one in made if one.source not in self._by_key] or made
            each.add((cut["model"], own[-1].shapes if own else ()))
        return each

    def current(self, cuts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """How each model was cut last, under each of its names, at each of the sizes of its free inputs (``shapes``).
        ``cuts``: documents with ``FIELDS``, the newest first."""
        newest: dict[tuple[Any, ...], dict[str, Any]] = {}
        for cut in cuts:
            for name, shapes in sorted(self._each(cut)):
                of = name, shapes, *(cut.get(field) or _BEFORE.get(field) for field in _OF)
                newest.setdefault(of, {**cut, "model": name, "shapes": shapes})
        return list(newest.values())
