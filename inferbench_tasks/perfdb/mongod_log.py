"""What a mongod that did not start says in its log, for people."""

from __future__ import annotations

import json
from pathlib import Path

#: Severities: error, fatal.
SEVERE = ("E", "F")
MAX_BYTES, MAX_LINES, MAX_CHARACTERS = 1 << 20, 8, 400


def complaints(path: Path, start: int) -> str:
    """The errors written since that position in the file, the last ones; the last lines if there are none."""
    if not path.exists():
        return ""
    with open(path, "rb") as file:
        file.seek(max(start, path.stat().st_size - MAX_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    severe = [text for line in lines if (text := _severe(line))]
    return "\n".join(severe[-MAX_LINES:] or [line[:MAX_CHARACTERS] for line in lines[-MAX_LINES:]])


def _severe(line: str) -> str | None:
    try:
        entry = json.loads(line)
        if entry["s"] not in SEVERE:
            return None
        details = json.dumps(entry["attr"], ensure_ascii=False) if "attr" in entry else ""
        return f"{entry['msg']} {details}"[:MAX_CHARACTERS]
    except (ValueError, KeyError, TypeError):
        return None
