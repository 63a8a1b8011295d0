"""What stage ``trace`` and its servers are told."""

from __future__ import annotations

from inferbench_tasks.stages import convert, generate
from inferbench_tasks.stages.base import StageInput


class Input(StageInput):
    """What is served, and the requests that it is asked."""

    generate: generate.Output
    convert: convert.Output
