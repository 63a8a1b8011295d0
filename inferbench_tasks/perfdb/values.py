"""Between our values and BSON: keys made safe and back, numbers made plain, files described."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from pathlib import PurePath
from typing import Any

from bson import ObjectId
from pydantic import BaseModel, ConfigDict

from inferbench_tasks.errors import PerfDBError

LEAST_INT, MOST_INT = -(2**63), 2**63 - 1
MAX_DEPTH = 90  # MongoDB allows 100 levels
#: Of documents with a hundred values each, thousands are read for a page.
_AS_THEY_ARE = frozenset({str, int, float, bool, datetime, type(None)})
_ESCAPED = re.compile(r"%(25|2E|24|00)")


class Attachment(BaseModel):
    """A file in PerfDB's GridFS; ``sha256`` (hex) is checked whenever it is read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    sha256: str
    bytes: int


def attachments_of(value: Any) -> Iterator[str]:
    """The ids of the files of PerfDB that a result names, wherever: raw samples, monitors, answers, spans.

    Parts of a result may come from a stranger's process: what is no id is left out, and an id may be of a file of
    others (``Files.delete_of``).
    """
    if isinstance(value, dict):
        if value.keys() == Attachment.model_fields.keys():
            if isinstance(value["id"], str) and ObjectId.is_valid(value["id"]):
                yield value["id"]
        else:
            for each in value.values():
                yield from attachments_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from attachments_of(each)


def stored_key(key: str) -> str:
    """The key as it is stored: ``.``, NUL, ``%`` and a leading ``$`` would change what a query means."""
    key = key.replace("%", "%25").replace(".", "%2E").replace("\0", "%00")
    return "%24" + key[1:] if key.startswith("$") else key


def plain_key(key: str) -> str:
    """The key as it was given to ``stored_key``."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), key) if "%" in key else key


def to_stored(value: Any, depth: int = 0) -> Any:
    """A value that MongoDB stores faithfully; NaN and infinities become None: nothing was measured.

    Raises PerfDBError for what can't be stored (an integer beyond 64 bits, an unknown type).
    """
    if depth > MAX_DEPTH:
        raise PerfDBError(f"A value is nested deeper than {MAX_DEPTH} levels and can't be stored in PerfDB.")
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, dict):
        return {stored_key(_text(str(k))): to_stored(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [to_stored(item, depth + 1) for item in items]
    if value is None or isinstance(value, (bool, bytes, datetime, ObjectId)):
        return value
    if isinstance(value, int):
        # Not ``in range``: for BSON's own integers, which a read document has, that tries every number.
        if not LEAST_INT <= value <= MOST_INT:
            raise PerfDBError(f"The integer {value} does not fit into 64 bits and can't be stored in PerfDB.")
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, (str, PurePath)):
        return _text(str(value))
    if hasattr(value, "tolist"):  # a numpy scalar or array
        return to_stored(value.tolist(), depth + 1)
    raise PerfDBError(f"A {type(value).__name__} can't be stored in PerfDB: {value!r:.200}")


def to_plain(value: Any) -> Any:
    """The inverse of ``to_stored``; ids become text."""
    if isinstance(value, dict):
        return {plain_key(k): v if type(v) in _AS_THEY_ARE else to_plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [v if type(v) in _AS_THEY_ARE else to_plain(v) for v in value]
    return str(value) if isinstance(value, ObjectId) else value


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate is no UTF-8
