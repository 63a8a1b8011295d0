"""What comes out of a probe."""

from __future__ import annotations

from typing import ClassVar

from inferbench_tasks.perfdb.documents import ResultBase


class ProbeResult(ResultBase):
    """How long it was."""

    collection: ClassVar[str] = "probe_results"

    waited_s: float | None = None
