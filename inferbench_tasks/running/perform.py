"""A stage's work, in this process or in a child, as the stage says."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

from inferbench_tasks.running.answered import require_own
from inferbench_tasks.running.child import run_in_child
from inferbench_tasks.stages.base import Context, JobInput, name_of


def perform(stage: ModuleType, inp: Any, ctx: Context) -> Any:
    """The stage's output; raises what the stage raises, and see ``run_in_child`` and ``require_own``."""
    ctx = replace(ctx, run_stage=perform)
    if not stage.STAGE.in_child:
        return stage.run(inp, ctx)
    assert isinstance(inp, JobInput)
    output = stage.without_child(inp, ctx)
    if output is None:
        output = run_in_child(stage, inp, ctx)
    require_own(output, inp, ctx, name_of(stage))
    return output
