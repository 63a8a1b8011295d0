"""The model that a run of the same point converted: as PerfDB has it, since a stranger's code may write in that run's
folder.

A file ``convert.json`` there may be of its ``generate``, which wrote it and failed: it counts for nothing by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.contracts.located import referred
from inferbench_tasks.errors import InputError, StageError
from inferbench_tasks.strangers_folder import read

if TYPE_CHECKING:
    from inferbench_tasks.perfdb.store import PerfDB

#: The output of the stage ``convert`` of a run; None where that stage has not ended well.
Recorded = Callable[[str], dict[str, Any] | None]
_FILE = "convert.json"


def recorded_by(db: PerfDB) -> Recorded:
    """As PerfDB has it of a run's latest execution of the stage."""

    def recorded(run_id: str) -> dict[str, Any] | None:
        try:
            stage = db.get_run(run_id).stage("convert")
        except InputError:
            return None
        return stage.output if stage is not None and stage.state == "done" else None

    return recorded


def converted_model(output: dict[str, Any], folder: Path, others: tuple[Path, ...]) -> ModelArtifact:
    """The model of that output, whose path is one of this host. ``folder``: of its run; ``others``: where it may lie
    besides. StageError where its path leads elsewhere.

    What goes to other hosts has a reference in PerfDB: where that lies here, the file of its run says.
    """
    from inferbench_tasks.stages.convert import Output as Converted

    model = Converted.model_validate(output).model
    if referred(model.path):
        try:
            told = Converted.model_validate_json(read(folder / _FILE)).model.path
        except FileNotFoundError:
            raise StageError("it was not converted on this host; see its own run") from None
        except (OSError, ValueError) as error:
            raise StageError(f"{_FILE} of its run can't be used: {str(error)[:500]}") from error
        model = model.model_copy(update={"path": told})
    real = Path(model.path).resolve()
    if not any(real.is_relative_to(root.resolve()) for root in (folder, *others)):
        raise StageError(
            f"its run names {model.path[:300]}, which is neither in its folder nor in the cache of its model"
        )
    return model
