"""What a submission of ``kind: bricks`` may say."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from inferbench_tasks.brick_jobs.members import members
from inferbench_tasks.brick_jobs.spec import (
    BricksSpec,
    DeviceOnly,
    MeasureSpec,
    ModelsSpec,
    PartSpec,
    ValidateSpec,
)
from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.contracts.spec import RelativePath
from inferbench_tasks.submission.base import JobBase, NamedFile

with warnings.catch_warnings():
    # pydantic has a method of that name, from its first version, which nobody calls.
    warnings.filterwarnings("ignore", message='Field name "validate"')

    class BricksJob(JobBase):
        """One job of a submission: a model, the cutting of all, or a shard of the measurements."""

        kind: Literal["bricks"]
        """What is measured, and by which stages."""
        models: ModelsSpec
        """A corpus, or a list of models."""
        bricks: BricksSpec = BricksSpec()
        """How models are cut, and at which setting bricks are measured."""
        measure: MeasureSpec = MeasureSpec()
        """How bricks are timed, and which times of before are used again."""
        validate: ValidateSpec = ValidateSpec()  # type: ignore[assignment]
        """Which models are measured as a whole beside their bricks."""
        serve: DeviceOnly = DeviceOnly()
        """Where bricks are measured."""
        part: PartSpec | None = None
        """Which part of the work a job is; set where a submission becomes jobs."""

        def needed_device(self) -> DeviceSpec:
            """The device that shards run on."""
            return self.serve.device

        def needed_cores(self) -> tuple[int, str]:
            """One for each of the runtime's threads: bricks are timed on cores of their own."""
            return self.bricks.threads, "bricks.threads"

        def named_files(self) -> Iterator[NamedFile]:
            """The models that lie beside the submission; their bytes are recorded, not digested."""
            for at, entry in enumerate(self.models if isinstance(self.models, tuple) else ()):
                if entry.model.kind == "file":
                    path: RelativePath = entry.model.path
                    yield NamedFile(f"models.{at}.model.path", path, may_be_folder=True)
                    if entry.model.module is not None:
                        yield NamedFile(f"models.{at}.model.module", entry.model.module)

        newer: ClassVar[dict[str, Any]] = {"measure.within_ratio": 0.0}

        @classmethod
        def members(cls, data: dict[str, Any]) -> list[dict[str, Any]]:
            """The models, the cutting and the shards of one point of the sweep."""
            return members(data)
