"""What such a submission may say."""

from __future__ import annotations

from typing import ClassVar, Literal

from inferbench_tasks.submission.base import JobBase


class ApartJob(JobBase):
    """Write on one host, look on another."""

    elsewhere_field: ClassVar[str] = "look"

    kind: Literal["apart"]
    look: Literal["here", "other_host"] = "other_host"
    """Where what was written is read."""

    def stages_elsewhere(self) -> tuple[str, ...]:
        """The one that reads."""
        return ("look",) if self.look == "other_host" else ()
