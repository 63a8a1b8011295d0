"""What is dear to make and the same for all tests: made once for a whole suite, for all its processes and parts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

#: The folder that the parts of one suite share, which ``scripts/test.sh`` makes and removes.
SHARED = "INFERBENCH_TEST_SHARED"


def made_once(base: Path, name: str, make: Callable[[Path], None]) -> Path:
    """``base/name``, which ``make`` fills where nobody did before; half of it is never seen."""
    folder, making = base / name, base / f"{name}-making"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            make(making)
            making.rename(folder)
    return folder


def shared_folder() -> Path | None:
    """That of the suite, if this is one."""
    return Path(os.environ[SHARED]) if os.environ.get(SHARED) else None
