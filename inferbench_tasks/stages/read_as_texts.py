"""Part of ``generate`` and ``evaluate``: one way in which answers are read as texts, where the outputs are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferbench_tasks.stages.answers_judged import Reader


@dataclass(frozen=True)
class Texts:
    """``facts``: what the result says, under ``kind``, of how answers are read. ``judged_by``: the figure without which
    an evaluation of such answers would be none, where it is known what is right. ``write``: into the samples' folder,
    from which ``answer_texts.reader_in`` has the same reader.
    """

    kind: str
    reader: Reader
    facts: dict[str, Any]
    judged_by: str
    write: Callable[[Path], None]
