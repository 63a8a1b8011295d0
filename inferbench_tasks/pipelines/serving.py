"""``kind: serving``: a model is made, converted, served, loaded and judged."""

from __future__ import annotations

from inferbench_tasks.pipelines.base import Pipeline


class ServingPipeline(Pipeline):
    """The benchmark of a serving system."""

    kind = "serving"
    stages = (
        "inferbench_tasks.stages.generate",
        "inferbench_tasks.stages.convert",
        "inferbench_tasks.stages.serve",
        "inferbench_tasks.stages.load",
        "inferbench_tasks.stages.collect",
        "inferbench_tasks.stages.release",
        "inferbench_tasks.stages.analyze",
    )


SERVING = ServingPipeline()
