"""Stage ``generate``: the data set as files that all ranks map."""

from __future__ import annotations

import shutil

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.stages.base import Context, JobInput, Stage
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import FOLDER, IMAGES_FILE, IMAGES_FOLDER, LABELS_FILE

STAGE = Stage(retries=1)


class Input(JobInput):
    """The first stage of its job."""

    job: TrainingJob


class Output(Handle):
    """Samples as the network takes them as an npy file, or the folder of JPEG files; labels ``n`` int64."""

    images_path: str
    labels_path: str
    samples: int


def run(inp: Input, ctx: Context) -> Output:
    """Make it; MissingExtraError where torch is missing, before a device is taken."""
    import numpy as np

    from inferbench_tasks.extras import require
    from inferbench_tasks.training import jpeg
    from inferbench_tasks.training.datasets import arrays

    require("torch")
    ctx.progress(0, 1, f"making {inp.job.data.count:,} samples")
    folder = ctx.run_dir(inp.run_id) / FOLDER
    folder.mkdir(exist_ok=True)
    images_path, labels_path = folder / IMAGES_FILE, folder / LABELS_FILE
    if inp.job.data.kind == "jpeg":
        images_path = folder / IMAGES_FOLDER
        shutil.rmtree(images_path, ignore_errors=True)  # of an attempt before
        labels = jpeg.write(images_path, inp.job.data.count, inp.job.train.seed)
    else:
        images, labels = arrays(inp.job, ctx.base_dir)
        np.save(images_path, images, allow_pickle=False)
    np.save(labels_path, labels, allow_pickle=False)
    ctx.progress(1, 1, f"{len(labels):,} samples")
    return Output(images_path=str(images_path), labels_path=str(labels_path), samples=len(labels))
