"""``inferbench run``, as far as it needs no run."""

from __future__ import annotations

import subprocess
import sys

LOGGING = """
import logging
from pathlib import Path
from inferbench_tasks.cli.run import log_into
log_into(Path("/dev/full"))
logging.getLogger("inferbench_tasks.perfdb.session").warning("perfdb is away")
"""


def test_a_log_on_a_full_disk_is_no_traceback() -> None:
    """What the log can't take is lost without a word: the run itself says that there is no space."""
    done = subprocess.run([sys.executable, "-c", LOGGING], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
