"""``kind: scenario``: a load by name."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from inferbench_tasks.manifests.kinds.base import Manifest
from inferbench_tasks.submission.schema import LoadSpec


class ScenarioManifest(Manifest):
    """A load by name and version."""

    kind: Literal["scenario"]
    load: LoadSpec
    """As ``load`` of a submission."""

    @field_validator("load")
    @classmethod
    def _names_no_other(cls, load: LoadSpec) -> LoadSpec:
        if load.scenario is not None:
            raise ValueError("a scenario names no other scenario; say its arrivals here")
        return load

    def about(self) -> str:
        return f"{self.load.arrivals.kind}, {self.load.protocol}, {self.load.duration_s:g} s"
