"""A line of JSON for each number of jobs, each measured by a process that has an Airflow's home of its own."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def measure_each(
    module: str, about: str | None, jobs: Sequence[int], one: Callable[[int, Path], dict[str, Any]]
) -> None:
    """The command of ``module``: ``--jobs`` are measured in turn by ``one`` (jobs, home), ``jobs`` unless given.

    ``about``: what its --help says. Raises subprocess.CalledProcessError where a process failed.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="*", default=jobs)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, Path(os.environ["AIRFLOW_HOME"]))))
        return
    for size in options.jobs:
        with tempfile.TemporaryDirectory() as home:
            command = [sys.executable, "-m", module, "--one", str(size)]
            env = {**os.environ, "AIRFLOW_HOME": home}
            done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
            print(done.stdout.strip().splitlines()[-1], flush=True)
