"""What every stage has in common.

A stage module has ``Input``, ``Output`` and ``run(inp: Input, ctx: Context) -> Output``. ``Input``
holds the job and the outputs of the stages it needs, each under that stage's name; both are small
JSON. A stage runs without Airflow; the operator only adapts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.submission.schema import JobSpec

#: ``progress(done, total, text)``: total is None while unknown.
Progress = Callable[[float, float | None, str], None]


def no_progress(done: float, total: float | None, text: str) -> None:
    """Shows nothing."""


@dataclass(frozen=True)
class Context:
    """What a stage may use of its surroundings.

    ``base_dir`` is the folder that a submission's relative paths start from. A stage checks
    ``cancelled()`` in long loops and raises CancelledError when it is true.
    """

    data_dir: Path
    perfdb_uri: str | None = None
    base_dir: Path = field(default_factory=Path.cwd)
    progress: Progress = no_progress
    cancelled: Callable[[], bool] = lambda: False

    def run_dir(self, run_id: str) -> Path:
        """The folder of one run: its requests, logs, samples and each stage's output."""
        path = self.data_dir / "runs" / run_id
        path.mkdir(parents=True, exist_ok=True)
        return path

    def cache_dir(self, name: str) -> Path:
        """A folder kept between runs (trained models, conversions, environments)."""
        path = self.data_dir / "cache" / name
        path.mkdir(parents=True, exist_ok=True)
        return path


class StageInput(Handle):
    """``run_id`` names the execution of ``job``; ``attempt`` starts at 1."""

    run_id: str
    job_id: str
    attempt: int = 1
    job: JobSpec
