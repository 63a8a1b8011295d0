"""What stage ``trace`` and its servers are told, and those who send the job's load again for it."""

from __future__ import annotations

from inferbench_tasks.stages import convert, generate
from inferbench_tasks.stages.base import StageInput
from inferbench_tasks.stages.one_load import Output as Loaded


class Input(StageInput):
    """What is served, and the requests that it is asked. ``load``: None of a job without one."""

    generate: generate.Output
    convert: convert.Output
    load: Loaded | None = None
