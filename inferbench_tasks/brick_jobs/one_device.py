"""Which processor is meant by a part of its name: one, or none is guessed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from inferbench_tasks.errors import InputError


def one_device(settings: Iterable[Mapping[str, Any]], device: str) -> str | None:
    """The processor that all of these settings are of (as ``queries.settings_of`` has them, for ``device``); None
    without any. InputError with their names where they are of several."""
    known = sorted({str(row["device"]) for row in settings})
    if len(known) > 1:
        which = f"{device!r} is part of several names" if device else "several devices have times, name one"
        raise InputError(f"{which}: {', '.join(known)}", field="device")
    return known[0] if known else None
