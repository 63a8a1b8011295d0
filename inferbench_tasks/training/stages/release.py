"""Stage ``release``: end what still runs of the training and drop its data. Runs whatever happened before."""

from __future__ import annotations

import shutil

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.stages.base import Context, JobInput, Stage
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import FOLDER, IMAGES_FILE, IMAGES_FOLDER, LABELS_FILE, LISTING_FILE

STAGE = Stage(needs=("meet", "train"), leased=True, retries=2)


class Input(JobInput):
    """Of the job it is enough to know which."""

    job: TrainingJob


class Output(Handle):
    """Whether anything was left to end."""

    stopped: bool


def run(inp: Input, ctx: Context) -> Output:
    """End every process of the run; harmless when they are gone already."""
    from inferbench_tasks.launchers import records

    stopped = records.end_run(settings.servers_dir(ctx.data_dir), inp.run_id)
    folder = ctx.run_dir(inp.run_id) / FOLDER
    for name in (IMAGES_FILE, LABELS_FILE, LISTING_FILE):
        for path in folder.glob(f"*.{name}"):
            path.unlink(missing_ok=True)
    shutil.rmtree(folder / IMAGES_FOLDER, ignore_errors=True)
    return Output(stopped=stopped)
