"""``requests.sizes``: what the free sizes of a model's inputs are in made-up requests."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from inferbench_tasks.contracts.spec import AXIS_PATTERN, Spec
from inferbench_tasks.submission.token_lengths import Lognormal, Normal, Uniform

Axis = Annotated[str, Field(pattern=AXIS_PATTERN, max_length=300)]
_MOST = 1_000_000
SizeLaw = Annotated[Uniform | Normal | Lognormal, Field(discriminator="kind")]


class SizeSpec(Spec):
    """One size, shared by all axes that it is given for."""

    axes: Annotated[tuple[Axis, ...], Field(strict=False, min_length=1, max_length=64)]
    """Free axes of inputs, ``NAME.AXIS`` each: ``[input_ids.1, attention_mask.1]``. The batch is axis 0; ``inferbench
    models inspect`` shows which are free (-1)."""
    size: Annotated[int, Field(ge=1, le=_MOST)] | SizeLaw
    """A number; or a law (``uniform``, ``normal``, ``lognormal``, each with its ``max``) from which each sample's is
    drawn."""

    @field_validator("size")
    @classmethod
    def _bounded(cls, value: int | Uniform | Normal | Lognormal) -> int | Uniform | Normal | Lognormal:
        if not isinstance(value, int) and value.most is None:
            raise ValueError(f"{value.kind} needs max: a sample of any size can't be prepared")
        return value

    @property
    def drawn(self) -> bool:
        """Whether samples may differ in it."""
        return not isinstance(self.size, int)
