"""The execution API of a local run and of a local system."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.airflow
CODE = """
from airflow.api_fastapi.execution_api.versions import bundle
from airflow.sdk.api.datamodels._generated import API_VERSION
from inferbench_tasks.provider.execution_api import drop_old_versions
every = [version.value for version in bundle.versions]
drop_old_versions()
kept = [version.value for version in bundle.versions]
assert kept[0] == API_VERSION and kept == every[:len(kept)] and len(kept) < len(every), (kept, every)
from airflow.api_fastapi.execution_api.app import create_task_execution_api_app
app = create_task_execution_api_app()
app._cadwyn_initialize()
assert sorted(app.router.versioned_routers[API_VERSION].routes, key=str)
"""


def test_the_execution_api_has_the_version_that_its_client_speaks() -> None:
    """Old versions are dropped, the newest has its routes, and none is missing that they can be derived from."""
    process = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
