"""A submission that a benchmark writes, run by `inferbench run --inline` in a data directory that stays."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from inferbench_tasks import settings
from inferbench_tasks.backends.base import BACKENDS

#: After Ctrl-C the stages may take so long to clean up.
_GRACE_S = 120.0
COMMAND = (sys.executable, "-m", "inferbench_tasks.cli.main")


def environment_of(data_dir: Path) -> dict[str, str]:
    """Of commands in that data directory, with its own PerfDB."""
    environment = {**os.environ, settings.DATA_DIR: str(data_dir)}
    environment.pop(settings.PERFDB_URI, None)
    return environment


@contextmanager
def system(data_dir: Path, workers: int) -> Iterator[None]:
    """``inferbench up`` with so many workers, ended afterwards."""
    environment = environment_of(data_dir)
    subprocess.run([*COMMAND, "up", "--workers", str(workers)], env=environment, check=True)
    try:
        yield
    finally:
        subprocess.run([*COMMAND, "down"], env=environment, check=False)


def served_format(backend: str) -> str:
    """The format that a backend serves; of several the usual one."""
    return BACKENDS.load(backend).formats[0]


class NoResults(Exception):
    """It ended without any: why stands on stderr."""


def submitted(submission: dict[str, Any], data_dir: Path, minutes: float = math.inf) -> list[dict[str, Any]]:
    """Its results, disturbed, failed and cancelled ones too. Raises NoResults.

    After so many ``minutes`` it is ended as by Ctrl-C: what its ended shards measured is kept, and it goes on when
    it is run again.
    """
    environment = environment_of(data_dir)
    with tempfile.TemporaryDirectory(prefix="inferbench-submitted-") as folder:
        path = Path(folder, f"{submission['name']}.yaml")
        path.write_text(yaml.safe_dump(submission), encoding="utf-8")
        try:
            run = [*COMMAND, "run", "--inline", str(path), "-o", "json"]
            child = subprocess.Popen(run, env=environment, stdout=subprocess.PIPE, text=True)
            out = _ended(child, None if minutes == math.inf else minutes * 60)
        finally:
            stop = [*COMMAND, "perfdb", "stop"]
            subprocess.run(stop, env=environment, check=False, stdout=subprocess.DEVNULL)
    if not out.strip():
        raise NoResults(f"{submission['name']} ended with exit code {child.returncode} and no results")
    return list(json.loads(out))


def _ended(child: subprocess.Popen[str], limit_s: float | None) -> str:
    """What it says in the end.

    KeyboardInterrupt once it has cleaned up: whoever asks for an end means all that is left to run as well.
    """
    interrupted: KeyboardInterrupt | None = None
    try:
        return child.communicate(timeout=limit_s)[0]
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
    except KeyboardInterrupt as error:  # a terminal tells the child, too
        interrupted = error
    try:
        out = child.communicate(timeout=_GRACE_S)[0]
    except subprocess.TimeoutExpired:
        child.kill()
        out = child.communicate()[0]
    if interrupted is not None:
        raise interrupted
    return out
