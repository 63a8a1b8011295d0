"""The block ``convert`` of a job."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inferbench_tasks.contracts.spec import Slug, Spec

Precision = Literal["fp32", "fp16", "bf16", "int8"]


class ConvertSpec(Spec):
    """The format to serve, and how far its answers may be from the source model's."""

    format: Slug = "onnx"
    """The format to serve; ``inferbench formats`` lists them."""
    precision: Precision = "fp32"
    """The type that the weights are stored and computed in."""
    tolerance_ratio: Annotated[float, Field(gt=0, le=1)] | None = None
    """Bound on max|converted - source| / max|source| of the answers to real inputs; by the precision unless given."""

    @property
    def exact(self) -> bool:
        """Whether nothing is to be lost on the way, whatever the source model's weights are in."""
        return self.precision == "fp32"
