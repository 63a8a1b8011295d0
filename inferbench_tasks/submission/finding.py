"""What a check of a job has to say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from inferbench_tasks.errors import InputError
from inferbench_tasks.problem import did_you_mean, show


class Names(Protocol):
    """The names of one concept's variants; ``what`` is the concept's name in messages."""

    what: str

    def __iter__(self) -> Iterator[str]: ...

    def __contains__(self, name: object, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class Finding:
    """``fields`` are the dotted paths that don't go together; the first is where it is reported."""

    fields: tuple[str, ...]
    message: str

    def as_error(self) -> InputError:
        """For who can't go on."""
        return InputError(self.message, field=self.fields[0])

    def __str__(self) -> str:
        return f"{self.fields[0]}: {self.message}"


def unknown(names: Names, name: str) -> str:
    """``unknown serving backend 'vlm'; did you mean 'vllm'? known: ...``."""
    return f"unknown {names.what} {show(name)}{did_you_mean(name, names) or ';'} known: {', '.join(names)}"
