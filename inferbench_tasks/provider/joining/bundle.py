"""The DAG files of a worker that joined: the leader's, looked at anew before each task."""

from __future__ import annotations

from pathlib import Path

from airflow.dag_processing.bundles.base import BaseDagBundle

from inferbench_tasks import settings
from inferbench_tasks.provider.joining import files
from inferbench_tasks.provider.joining.leader import FILES, Leader


class LeaderBundle(BaseDagBundle):
    """Airflow initializes a task's bundle before it reads the task's file."""

    supports_versioning = False

    def initialize(self) -> None:
        """Bring the files up to date; raises InferBenchError where the leader gives none."""
        Leader.of(settings.data_dir()).sync()
        super().initialize()

    def get_current_version(self) -> None:
        return None

    def refresh(self) -> None:
        """The same: only what has changed is sent."""
        Leader.of(settings.data_dir()).sync()

    @property
    def path(self) -> Path:
        """Where the DAG files are."""
        return Leader.of(settings.data_dir()).folder / FILES / files.DAGS
