"""What one shard measures, as a folder that goes to the host of its device: its networks, their inputs and a list.

The networks lie where each model was cut (``cutting.NETWORKS``), on the host that cut it. Of one shard they are put
together, by links: a folder of its own is one artifact (``contracts.located``), whose files are read once. A whole
model is none of them: it lies in a cache, as an artifact already.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from inferbench_tasks.brick_jobs.cutting import Cutting, ToMeasure
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.bricks.saving import weights_beside
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.errors import StageError

FOLDER, FILE = "shard", "shard.json"


class Shard(Handle):
    """``setting``: of the device that the models were cut for. ``todo``: as of ``Cutting``; the paths of a shard that
    was read are of this host. ``run_id``: makes the artifacts of two runs two, whatever is in them: what one of them
    removes in the end is not where the other's was found."""

    run_id: str
    setting: Setting
    todo: tuple[ToMeasure, ...]


def gather(found: Cutting, shard: int, run_id: str, folder: Path) -> dict[str, str]:
    """Write it into the folder, which is made anew; name -> path of each whole model that is to be timed."""
    shutil.rmtree(folder, ignore_errors=True)  # of an attempt before
    folder.mkdir()
    places: dict[Path, str] = {}
    models: dict[str, str] = {}
    todo = []
    for one in found.of_shard(shard):
        item = one.item
        changed = {"feeds": _put(item.feeds, folder, places)}
        if item.whole:
            models[item.name] = str(item.path)
            changed["path"] = Path()
        else:
            changed["path"] = _put(item.path, folder, places)
        todo.append(one.model_copy(update={"item": item.model_copy(update=changed)}))
    written = Shard(run_id=run_id, setting=found.setting, todo=tuple(todo))
    (folder / FILE).write_text(written.model_dump_json())
    return models


def read(folder: Path, models: Mapping[str, str]) -> Shard:
    """That of a folder, as it lies on this host; ``models``: as of ``gather``. StageError for a list without one of
    its models."""
    shard = Shard.model_validate_json((folder / FILE).read_bytes())
    todo = []
    for one in shard.todo:
        item = one.item
        if item.whole and item.name not in models:
            raise StageError(f"{folder} is to be measured with {item.name[:80]}, and has no such model")
        path = Path(models[item.name]) if item.whole else folder / item.path
        here = item.model_copy(update={"path": path, "feeds": folder / item.feeds})
        todo.append(one.model_copy(update={"item": here}))
    return shard.model_copy(update={"todo": tuple(todo)})


def _put(source: Path, folder: Path, places: dict[Path, str]) -> Path:
    """Its name below the folder, where it lies now, with the weights that lie beside it; files that had a folder of
    their own have one here, where no two have one name."""
    place = places.setdefault(source.parent, str(len(places)))
    (folder / place).mkdir(exist_ok=True)
    for path in (source, weights_beside(source)):
        target = folder / place / path.name
        if path.is_file() and not path.is_symlink() and not target.exists():
            _linked(path, target)
    if not (folder / place / source.name).exists():
        raise StageError(
            f"{source} is no file of the models that were cut; clear the job's tasks from decompose on"
        )
    return Path(place, source.name)


def _linked(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)
