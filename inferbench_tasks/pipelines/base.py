"""A pipeline: the stages that a job of its kind goes through, in their order.

What is known of a stage stands on the stage's own module (``STAGE``); a pipeline lists the modules.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.registry import Registry
from inferbench_tasks.stages.base import Stage, name_of


@dataclass(frozen=True, slots=True)
class StageEntry:
    """A stage of a pipeline: its name, the module that has it, its facts."""

    name: str
    module: str
    facts: Stage


class Pipeline:
    """What one kind of submission is made of.

    ``stages``: the modules of its stages in the order in which a job goes through them; one that is
    ``of_submission`` stands last.
    """

    kind: str
    stages: tuple[str, ...]

    @cached_property
    def entries(self) -> tuple[StageEntry, ...]:
        """All its stages; InputError for a list that no plan can be made of."""
        entries = tuple(
            StageEntry(name_of(module), module, importlib.import_module(module).STAGE)
            for module in self.stages
        )
        self._check(entries)
        return entries

    def of_job(self, job: Any) -> tuple[StageEntry, ...]:
        """The stages that a job goes through: without those of blocks that it does not have."""
        return tuple(
            entry
            for entry in self.entries
            if not entry.facts.of_submission
            and (entry.facts.block is None or getattr(job, entry.facts.block) is not None)
        )

    def of_submission(self) -> tuple[StageEntry, ...]:
        """The stages that follow all jobs."""
        return tuple(entry for entry in self.entries if entry.facts.of_submission)

    def _check(self, entries: tuple[StageEntry, ...]) -> None:
        before: set[str] = set()
        lease = ""
        for entry in entries:
            if entry.name in before:
                raise InputError(f"The pipeline {self.kind!r} has two stages {entry.name!r}.")
            if missing := set(entry.facts.needs) - before:
                raise InputError(
                    f"The pipeline {self.kind!r}: {entry.name} needs {', '.join(sorted(missing))}, which must "
                    f"stand before it; before it stand: {', '.join(sorted(before)) or 'none'}"
                )
            if entry.facts.leased and lease == "closed":
                raise InputError(
                    f"The pipeline {self.kind!r}: {entry.name} needs the device, which a stage before it has "
                    "given back; the stages on the device must stand together"
                )
            lease = "open" if entry.facts.leased else "closed" if lease else ""
            before.add(entry.name)


#: Submissions name their pipeline by ``kind``.
PIPELINES: Registry[Pipeline] = Registry(
    "kind of submission",
    "inferbench.pipelines",
    {"serving": "inferbench_tasks.pipelines.serving:SERVING"},
)
