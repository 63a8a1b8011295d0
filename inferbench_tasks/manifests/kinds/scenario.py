"""``kind: scenario``: a load by name."""

from __future__ import annotations

from typing import Literal

from inferbench_tasks.manifests.kinds.base import Manifest
from inferbench_tasks.submission.schema import LoadSpec


class ScenarioManifest(Manifest):
    """A load by name and version."""

    kind: Literal["scenario"]
    load: LoadSpec
    """As ``load`` of a submission."""

    def about(self) -> str:
        return f"{self.load.arrivals.kind}, {self.load.protocol}, {self.load.duration_s:g} s"
