"""Built-in models that are to be had in one framework only, or in some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from inferbench_tasks.contracts.models import ModelSource
from inferbench_tasks.errors import InputError


class OneFramework(ModelSource):
    """``only``: which it is, and what to do: the end of the sentence that begins with the model's name."""

    only: ClassVar[str]

    def __init__(self, name: str, framework: str | None = None) -> None:
        """InputError where another framework is asked for."""
        if framework not in (None, self.framework):
            raise InputError(f"the zoo model {name!r} {self.only}", field="model.framework")
        self.name = name


def chosen_framework(name: str, framework: str | None, had: Sequence[str]) -> str:
    """The one that is asked for, else the first of those that a model is to be had in. InputError for another."""
    if framework is not None and framework not in had:
        message = f"the zoo model {name!r} is only to be had in {' or '.join(had)}"
        raise InputError(message, field="model.framework")
    return framework or had[0]
