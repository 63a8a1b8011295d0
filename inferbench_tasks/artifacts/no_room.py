"""That something had no room on a host's disk, though that is not full: its next jobs would fail likewise, one by one.

Who fetches writes it down, and the workers of the data directory take no job meanwhile, so that others get them, where
there are others (``workers.agent``). It lasts until there is room, at most ``LASTS_S``: jobs that need less than that
one are not kept off for good.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from pathlib import Path

LASTS_S = 600.0
_MARK = Path("cache") / "no-room.json"


def write_down(data_dir: Path, needed_bytes: int) -> None:
    """That so many were asked for, and are not free. Of what would not fit an empty disk nothing is said: no other job
    has to wait for room that there never is."""
    with contextlib.suppress(OSError):  # the disk may be full to the last byte
        if needed_bytes > shutil.disk_usage(data_dir).total:
            return
        path = data_dir / _MARK
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f".{os.getpid()}-{path.name}")
        made.write_text(json.dumps({"needed_bytes": needed_bytes, "at_s": time.time()}))
        os.replace(made, path)


def why_no_room(data_dir: Path) -> str:
    """What had no room lately and would have none now, with the remedy; "" where nothing had."""
    path = data_dir / _MARK
    try:
        told = json.loads(path.read_bytes())
        needed, since_s = int(told["needed_bytes"]), time.time() - float(told["at_s"])
        free = shutil.disk_usage(data_dir).free
    except (OSError, ValueError, KeyError, TypeError):  # nothing was written down, or not by us
        return ""
    if free >= needed or not 0 <= since_s < LASTS_S:
        with contextlib.suppress(OSError):
            path.unlink()
        return ""
    return (
        f"{needed / 1e6:,.0f} MB that a job needs have no room on the file system of {data_dir}, where "
        f"{free / 1e6:,.0f} MB are free. Free some (`inferbench clean`), or choose another data directory; jobs are "
        f"taken again once there is room, or {LASTS_S / 60:.0f} minutes after that job failed"
    )
