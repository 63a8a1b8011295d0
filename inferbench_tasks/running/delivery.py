"""A registered model's files, fetched for the child of a stage, which so needs neither PerfDB's login nor a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.modelrepo.build import find_model
from inferbench_tasks.modelrepo.registered import RegisteredSource
from inferbench_tasks.modelrepo.repository import ModelRepository
from inferbench_tasks.modelrepo.resolve import resolve
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stages.base import Context, JobInput, StageInput

#: In the run's folder, while the stage runs.
FOLDER = "registered"


@contextmanager
def delivered(inp: JobInput, ctx: Context) -> Iterator[dict[str, Any] | None]:
    """What a child is to know of its job's registered model, as JSON (``registered.deliver``); None for other models.

    The files are only copied here, none is opened as a model. They are fetched where nothing is cached of them, and
    removed in the end. Raises InputError for a model that is not there, or machine code, and PerfDBError.
    """
    source = resolve(inp.job.model, ctx.base_dir) if isinstance(inp, StageInput) else None
    if not isinstance(source, RegisteredSource):
        yield None
        return
    folder = ctx.run_dir(inp.run_id) / FOLDER
    if folder.is_symlink():  # of the child of an attempt that was killed with its parent
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)  # of an attempt that was killed
    try:
        if find_model(source, ctx.data_dir) is None:
            source.refuse_code()
            ctx.progress(0, None, f"fetching {source.name}@{source.version}")
            with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
                ModelRepository(db).save(source.card, folder)
        asked = inp.job.model.model_dump(mode="json")  # type: ignore[attr-defined]
        yield {"model": asked, "card": source.card.model_dump(mode="json"), "folder": str(folder)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
