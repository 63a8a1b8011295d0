"""``kind: probe``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.pipelines.base import PARAMETERS, Parameter, Pipeline

from .job import ProbeJob

if TYPE_CHECKING:
    from .result import ProbeResult


class ProbePipeline(Pipeline[ProbeJob]):
    """Two stages on a device."""

    kind = "probe"
    job = ProbeJob
    stages = ("inferbench_probe.wait", "inferbench_probe.note")
    parameters = {**PARAMETERS, "seconds": Parameter("seconds", {"type": "number", "minimum": 0})}

    def expected_s(self, spec: ProbeJob) -> float:
        """What it waits, and a second."""
        return spec.seconds + 1.0

    def row(self, spec: ProbeJob) -> dict[str, Any]:
        """How long it waits."""
        return {"seconds": spec.seconds}

    def result(self) -> type[ProbeResult]:
        """How long it waited."""
        from .result import ProbeResult

        return ProbeResult

    def figures(self, result: ProbeResult) -> dict[str, Any]:
        """The only one."""
        return {"waited_s": result.waited_s}


PROBE = ProbePipeline()
