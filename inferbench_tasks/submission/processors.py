"""``processors:`` what stands between a user's data and the model's tensors, and on which side it runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from inferbench_tasks.contracts.spec import Slug, Spec


class ProcessorSpec(Spec):
    """One processor."""

    kind: Slug
    """Built in: ``audio``, ``image``, ``tokenizer``, ``video`` before the model, ``labels``, ``nms`` after it."""
    settings: dict[str, Any] = {}
    """The processor's own settings (``{size: 224, mean: 127, std: 128}``); a ``path`` is relative to the submission."""


class ProcessorsSpec(Spec):
    """Decoding, normalising, tokenising before the model, labels or boxes after it; each is timed.

    With ``side: server`` a request carries the raw data (an image's file, a text) and the answer what the last
    processor gives. With ``side: client`` the load's sender does the same to every request before it leaves and to
    every answer, as a user's program does, and requests carry tensors. On either side their time is part of every
    request's latency, and shown as its pre- and post-processing.
    """

    side: Literal["client", "server"] = "client"
    """Where they run; ``server`` needs a backend on InferBench's own server, as a process."""
    before: Annotated[tuple[ProcessorSpec, ...], Field(strict=False, max_length=8)] = ()
    """From raw data to the model's inputs, in this order."""
    after: Annotated[tuple[ProcessorSpec, ...], Field(strict=False, max_length=8)] = ()
    """From the model's outputs to what the user gets, in this order."""

    @model_validator(mode="after")
    def _something_to_do(self) -> ProcessorsSpec:
        if not self.before and not self.after:
            raise ValueError("needs at least one processor under before or after")
        return self
