"""A submission that a benchmark writes, run by `inferbench run --inline` in a data directory that stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from inferbench_tasks import settings


def submitted(submission: dict[str, Any], data_dir: Path) -> list[dict[str, Any]]:
    """Its results, disturbed and failed ones too. ValueError where it ended without any: why stands on stderr."""
    environment = {**os.environ, settings.DATA_DIR: str(data_dir)}
    environment.pop(settings.PERFDB_URI, None)
    command = [sys.executable, "-m", "inferbench_tasks.cli.main"]
    with tempfile.TemporaryDirectory(prefix="inferbench-bricks-") as folder:
        path = Path(folder, f"{submission['name']}.yaml")
        path.write_text(yaml.safe_dump(submission), encoding="utf-8")
        try:
            run = [*command, "run", "--inline", str(path), "-o", "json"]
            answer = subprocess.run(run, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        finally:
            stop = [*command, "perfdb", "stop"]
            subprocess.run(stop, env=environment, check=False, stdout=subprocess.DEVNULL)
    if not answer.stdout.strip():
        raise ValueError(f"{submission['name']} ended with exit code {answer.returncode} and no results")
    return list(json.loads(answer.stdout))
