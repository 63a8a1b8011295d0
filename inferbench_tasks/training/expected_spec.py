"""What a submission says of the speed that should be."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inferbench_tasks.contracts.spec import Spec

DeviceName = Annotated[str, Field(min_length=1, max_length=100)]
Precision = Literal["fp32", "tf32", "bf16", "fp16"]
#: No two devices differ by more.
LEAST_SPEED, MOST_SPEED = 1e-6, 1e6
SourceText = Annotated[str, Field(min_length=1, max_length=300)]


class FactorSpec(Spec):
    """``device`` makes ``speed`` times the samples/s of ``of`` at the same work, as a row of
    ``expected_speed.yaml``.
    """

    device: DeviceName
    """As tables or systems call it; ``CLUSTER/DEVICE``: that of one cluster."""
    of: DeviceName
    """The device that it is set beside."""
    speed: Annotated[float, Field(ge=LEAST_SPEED, le=MOST_SPEED)]
    """Its samples/s by those of ``of``."""
    precision: Precision | None = None
    """Of this precision only; by default of any."""
    count: Annotated[int, Field(ge=1, le=1024)] | None = None
    """For so many devices of both; by default for as many as there are."""
    source: SourceText
    """Who says so."""
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")]
    """When it held: a year, a month or a day."""


class ExpectedSpec(Spec):
    """The speed that should be: what the run is set beside in its report, and factors for comparisons."""

    samples_per_s: Annotated[float, Field(gt=0, le=1e12)] | None = None
    """Of all processes together, without instruments."""
    step_ms: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """The mean of a step with instruments."""
    source: SourceText | None = None
    """Where these two come from; needed with them."""
    factors: Annotated[tuple[FactorSpec, ...], Field(max_length=100, strict=False)] = ()
    """Beside those of ``configs/expected_speed.yaml``, of which a row for the same devices, precision and count is
    replaced."""
