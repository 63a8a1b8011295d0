"""Stage ``generate``: the data set as files that all ranks map, and the user's module, once it was seen to train."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.located import LocatedPath
from inferbench_tasks.contracts.located_files import LocatedFiles
from inferbench_tasks.stages.base import Context, JobInput, Stage
from inferbench_tasks.training import cold
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import (
    FOLDER,
    IMAGES_FILE,
    IMAGES_FOLDER,
    LABELS_FILE,
    LISTING_FILE,
    MODULE_FOLDER,
    Order,
)

STAGE = Stage(retries=1, in_child=True)


class Input(JobInput):
    """The first stage of its job."""

    job: TrainingJob


class LeftOut(Handle):
    """What of the user's folder nobody trains on; the fields of ``training.folder.Chosen.left_out``."""

    broken: int
    named: list[str]
    others: int
    classes: int


class Output(Handle):
    """``images_path``: samples as the network takes them as an npy file, the folder of JPEG files, or the list of
    ``files``, the user's images; ``labels_path``: ``n`` int64. ``left_out``: of the user's folder.
    ``module_folder``: the copy of the user's module.
    """

    images_path: LocatedPath
    labels_path: LocatedPath
    samples: int
    left_out: LeftOut | None = None
    module_folder: LocatedPath | None = None
    files: LocatedFiles | None = None


def without_child(inp: Input, ctx: Context) -> Output | None:
    """What is ours is made here; what the user brings is opened in a child.

    MissingExtraError where torch is missing, before a device is taken: such a child can't install it. InputError for
    GPUs that this machine does not have, and batches that it has no memory for; the ranks find the data where it is
    made, so it is theirs.
    """
    from inferbench_tasks.extras import require
    from inferbench_tasks.sandbox import limits
    from inferbench_tasks.training import gpus, memory

    require("torch")
    gpus.check(inp.job)
    memory.check(inp.job, limits.most_bytes())
    return None if inp.job.foreign else run(inp, ctx)


def run(inp: Input, ctx: Context) -> Output:
    """Make the data, or look at the user's; see whether the user's module trains on it.

    Raises InputError for data and modules that nothing can be trained with.
    """
    import numpy as np

    job = inp.job
    ctx.progress(0, 1, f"making {job.data.count:,} samples")
    folder = ctx.run_dir(inp.run_id) / FOLDER
    folder.mkdir(exist_ok=True)
    labels_path = _own(folder, LABELS_FILE)
    images_path, labels, left_out, files = _data(job, folder, ctx)
    np.save(labels_path, labels, allow_pickle=False)
    output = Output(
        images_path=str(images_path),
        labels_path=str(labels_path),
        samples=len(labels),
        left_out=None if left_out is None else LeftOut.model_validate(left_out),
        module_folder=_module(job, folder, ctx),
        files=files,
    )
    if output.module_folder is not None:
        from inferbench_tasks.training import trial

        ctx.progress(0, None, f"trying {job.model.name}")
        trial.check(order_of(job, output))
    ctx.progress(1, 1, f"{len(labels):,} samples")
    return output


def order_of(job: TrainingJob, made: Output, cores: tuple[tuple[int, ...], ...] = ()) -> Order:
    """What the ranks are told."""
    return Order(
        job=job,
        images_path=made.images_path,
        labels_path=made.labels_path,
        cores=cores,
        module_folder=made.module_folder,
        files_folder=made.files.folder if made.files else None,
        files_sha256=made.files.listing_sha256 if made.files else "",
    )


def _own(folder: Path, name: str) -> Path:
    """With the run's name in its own: files of two runs with the same content are two artifacts, so that what one run
    drops at its end is not where another one's were found.
    """
    return folder / f"{folder.parent.name}.{name}"


def _data(
    job: TrainingJob, folder: Path, ctx: Context
) -> tuple[Path, Any, dict[str, Any] | None, LocatedFiles | None]:
    import numpy as np

    if job.data.kind == "jpeg":
        from inferbench_tasks.training import jpeg

        path = folder / IMAGES_FOLDER
        shutil.rmtree(path, ignore_errors=True)  # of an attempt before
        if job.data.read == "cold":
            cold.check(folder)
        labels = jpeg.write(path, job.data.count, job.train.seed)
        (path / f"{folder.parent.name}.run").touch()  # see ``_own``
        return path, labels, None, None
    if job.data.kind == "folder":
        from inferbench_tasks.artifacts.safe_files import inside
        from inferbench_tasks.contracts.models import Watch
        from inferbench_tasks.training.folder import choose, listed

        source = inside(ctx.base_dir, str(job.data.path), "data.path")
        chosen = choose(source, job.data.count, job.train.seed, Watch(ctx.progress, ctx.cancelled))
        listing = _own(folder, LISTING_FILE)
        files = listed(listing, source, chosen)
        if job.data.read == "cold":
            cold.check_files(files.paths, str(job.data.path))
        return listing, np.array(chosen.labels, dtype=np.int64), chosen.left_out(), files
    from inferbench_tasks.training.datasets import arrays

    samples, labels = arrays(job, ctx.base_dir)
    images_path = _own(folder, IMAGES_FILE)
    np.save(images_path, samples, allow_pickle=False)
    return images_path, labels, None, None


def _module(job: TrainingJob, folder: Path, ctx: Context) -> str | None:
    if job.model.kind != "file":
        return None
    from inferbench_tasks.formats import module_file

    source = module_file.find(ctx.base_dir, str(job.model.module))
    target = folder / MODULE_FOLDER
    target.mkdir(exist_ok=True)
    shutil.copyfile(source, target / module_file.FILE)
    return str(target)
