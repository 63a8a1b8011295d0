"""What a result is of where it is of no model: it has ranks, fronts and recommendations of its own.

The language-model stand-in computes nothing, and random weights in place of a model's own mean nothing
(``serve.dummy_weights``): neither is faster or slower than a language model. What every result stores tells which it
is, its backend and its job, so that this holds of those from before as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from inferbench_tasks.dotted import value_at

#: Below a result: what tells. The name is only looked at of stand-ins, whose names nobody chooses.
PATHS = ("backend.kind", "model.name", "provenance.job.serve.dummy_weights")
_STAND_IN, _FAULTY = "llm_stand_in", "llm-stand-in-with-faults"


def words(backend: Any, name: Any, dummy_weights: Any) -> str:
    """``no model: random weights``; empty of a model."""
    if backend == _STAND_IN:
        return "no model: a stand-in with faults" if name == _FAULTY else "no model: a stand-in"
    return "no model: random weights (serve.dummy_weights)" if dummy_weights else ""


def of_document(document: Mapping[str, Any]) -> str:
    """Of a result as plain nested mappings."""
    return words(*(value_at(document, path) for path in PATHS))


def of_rows(values: Callable[[str], Callable[[Any], Any]]) -> Callable[[Any], str]:
    """How to tell it of a row; ``values``: how to get a path's value of one."""
    parts = [values(path) for path in PATHS]
    return lambda row: words(*(part(row) for part in parts))


def task_in_words(task: Any, of: str) -> str:
    """``text-generation``, or ``text-generation (no model: a stand-in)``: what is ranked together has the same."""
    return f"{task or ''} ({of})".strip() if of else str(task or "")
