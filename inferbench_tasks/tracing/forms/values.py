"""Values of attributes as the types that other tools have: truth, 64-bit integer, double, else text."""

from __future__ import annotations

import json
from typing import Any, Literal

Kind = Literal["bool", "int", "double", "string"]
#: Integers at or beyond it on either side fit no form's 64 bits.
_INT64 = 2**63


def fitting(value: Any) -> Any:
    """A plain value as JSON of 64-bit integers has it: larger ones as text, also within lists and mappings."""
    if isinstance(value, int):
        return value if isinstance(value, bool) or -_INT64 <= value < _INT64 else str(value)
    if isinstance(value, dict):
        return {name: fitting(each) for name, each in value.items()}
    return [fitting(each) for each in value] if isinstance(value, list) else value


def typed(value: Any) -> tuple[Kind, Any]:
    """Its type, and what is written of it: text is JSON of what is no text itself, larger numbers too."""
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return "int", value
    if isinstance(value, float):
        return "double", value
    return "string", value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
