"""Stage ``generate``: the data set as files that all ranks map."""

from __future__ import annotations

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.stages.base import Context, JobInput, Stage
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import FOLDER

STAGE = Stage(retries=1)


class Input(JobInput):
    """The first stage of its job."""

    job: TrainingJob


class Output(Handle):
    """Images ``n x channels x side x side`` float32 and labels ``n`` int64, as npy files."""

    images_path: str
    labels_path: str
    samples: int


def run(inp: Input, ctx: Context) -> Output:
    """Make it; MissingExtraError where torch is missing, before a device is taken."""
    import numpy as np

    from inferbench_tasks.extras import require
    from inferbench_tasks.training.datasets import arrays

    require("torch")
    ctx.progress(0, 1, f"making {inp.job.data.count:,} samples")
    images, labels = arrays(inp.job)
    folder = ctx.run_dir(inp.run_id) / FOLDER
    folder.mkdir(exist_ok=True)
    images_path, labels_path = folder / "images.npy", folder / "labels.npy"
    np.save(images_path, images, allow_pickle=False)
    np.save(labels_path, labels, allow_pickle=False)
    ctx.progress(1, 1, f"{len(labels):,} samples")
    return Output(images_path=str(images_path), labels_path=str(labels_path), samples=len(labels))
