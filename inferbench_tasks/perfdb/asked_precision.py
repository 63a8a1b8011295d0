"""In which precision a result's model was asked for: what tells configurations apart.

What its weights are called (``model.precision``) does not: earlier versions called each file of a user's fp32, whatever
it keeps, and the same file served the same way is the same configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferbench_tasks.dotted import value_at

PATH = "provenance.job.convert.precision"
#: What ``asked_precision`` reads.
PATHS = (PATH, "model.precision")


def asked_precision(document: Mapping[str, Any]) -> str | None:
    """``convert.precision``; of a result without its job what the model is called."""
    asked: str | None = value_at(document, PATH) or value_at(document, "model.precision")
    return asked
