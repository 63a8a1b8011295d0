"""``kind: apart``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inferbench_tasks.pipelines.base import Pipeline

from .job import ApartJob

if TYPE_CHECKING:
    from .result import ApartResult


class ApartPipeline(Pipeline[ApartJob]):
    """Three stages on two hosts."""

    kind = "apart"
    job = ApartJob
    stages = ("inferbench_apart.begin", "inferbench_apart.look", "inferbench_apart.end")

    def expected_s(self, spec: ApartJob) -> float:
        """Next to nothing."""
        return 1.0

    def result(self) -> type[ApartResult]:
        """Which hosts they were."""
        from .result import ApartResult

        return ApartResult


APART = ApartPipeline()
