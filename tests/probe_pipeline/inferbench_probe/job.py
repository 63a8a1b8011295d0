"""What a probe may say."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inferbench_tasks.submission.base import JobBase


class ProbeJob(JobBase):
    """Wait on a device."""

    kind: Literal["probe"]
    seconds: Annotated[float, Field(ge=0, le=600)] = 0.0
    """How long."""
