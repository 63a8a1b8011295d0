"""``evaluate.vary``: which steps of the pre-processing are changed, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from inferbench_tasks.contracts.spec import Spec
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.finding import Finding

#: So many variants make a submission; each is asked every sample once.
MOST_VARIANTS = 16
#: A step and what it is changed to.
Change = tuple[str, str | float]


class VarySpec(Spec):
    """What each change of the pre-processing does to accuracy and time; one change at a time, all else as it was.

    Plain is: Pillow decodes, the middle of the model's shape is cut out, resized bilinearly, its colours stand as
    the model takes them (nearly all: RGB), its pixels normalised as it wants them, in its type and layout. Of data sets
    of image files only.
    """

    decoder: Annotated[tuple[Literal["ffmpeg"], ...], Field(strict=False, min_length=1)] | None = None
    """Who decodes: ``ffmpeg``'s decoders (package ``av``, the extra ``video``). Of JPEG and WebP they give other
    pixels."""
    resize: (
        Annotated[
            tuple[Literal["nearest", "box", "bicubic", "lanczos"], ...], Field(strict=False, min_length=1)
        ]
        | None
    ) = None
    """By which filter of Pillow it is resized."""
    crop: (
        Annotated[
            tuple[Annotated[float, Field(gt=0, lt=1)] | Literal["none"], ...],
            Field(strict=False, min_length=1),
        ]
        | None
    ) = None
    """Which share of the middle's sides is taken (0.875 is usual), or ``none``: the whole picture, squeezed into the
    model's shape."""
    colour_order: Annotated[tuple[Literal["bgr", "rgb"], ...], Field(strict=False, min_length=1)] | None = (
        None
    )
    """In which order the colours stand: the one that the model does not take."""
    normalise: (
        Annotated[
            tuple[Literal["none", "unit", "minus_one_to_one", "imagenet"], ...],
            Field(strict=False, min_length=1),
        ]
        | None
    ) = None
    """Pixels as they are (0 to 255), 0 to 1, -1 to 1, or by the means and deviations of ImageNet's three colours."""
    dtype: Annotated[tuple[Literal["fp16", "uint8"], ...], Field(strict=False, min_length=1)] | None = None
    """What the normalised values are rounded to before they are sent in the model's own type; ``uint8``: to whole
    numbers from 0 to 255."""
    layout: Annotated[tuple[Literal["nchw", "nhwc"], ...], Field(strict=False, min_length=1)] | None = None
    """The layout that the values are written in, while the model reads them in its own: the wrong one of the two."""

    @property
    def changes(self) -> tuple[Change, ...]:
        """Every variant, by its step and what that is changed to."""
        return tuple((step, each) for step in type(self).model_fields for each in getattr(self, step) or ())

    @model_validator(mode="after")
    def _some_each_once(self) -> VarySpec:
        changes = self.changes
        if not changes:
            raise ValueError(f"needs at least one step of: {', '.join(type(self).model_fields)}")
        if len(changes) > MOST_VARIANTS:
            raise ValueError(f"has {len(changes)} variants, allowed are {MOST_VARIANTS}; leave some out")
        if twice := next((change for change in changes if changes.count(change) > 1), None):
            raise ValueError(f"{twice[0]} has {twice[1]} twice; give each once")
        return self


def vary_findings(vary: VarySpec, dataset: str | None, abilities: Abilities) -> Iterator[Finding]:
    """Steps that the data set's samples do not go through; what only its files tell is said before a server starts."""
    steps = dict.fromkeys(step for step, _ in vary.changes)
    if dataset is None:
        reason = "the model's own samples come as its inputs, so that there is no step to change"
    elif dataset not in abilities.datasets or (form := abilities.dataset_form(dataset)) in ("pictures", None):
        return
    else:
        reason = f"samples of {dataset} are {form}, which go through no such step"
    for step in steps:
        allowed = ", ".join(abilities.datasets_of("pictures"))
        message = f"{reason}; take a data set of image files ({allowed}), or leave {step} out"
        yield Finding((f"evaluate.vary.{step}", "evaluate.dataset"), message)
