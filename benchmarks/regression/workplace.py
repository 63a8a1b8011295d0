"""A PerfDB and a data directory that exist only while a benchmark runs: nobody's own nights get into it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB


@contextmanager
def workplace() -> Iterator[tuple[PerfDB, Path]]:
    """The store and its folder; set in the environment, for this process and its children."""
    with tempfile.TemporaryDirectory(prefix="inferbench-regression-") as folder:
        data_dir = Path(folder)
        os.environ.pop(settings.PERFDB_URI, None)
        os.environ[settings.DATA_DIR] = folder
        try:
            with PerfDB.connect(None, data_dir) as db:
                yield db, data_dir
        finally:
            embedded.stop(data_dir)
