"""``evaluate``: whether a server's answers are right, as data."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from inferbench_tasks.contracts.spec import RelativePath, Slug, Spec, Versioned
from inferbench_tasks.submission.part import PartsCount, PartText
from inferbench_tasks.submission.spans import SpansSpec
from inferbench_tasks.submission.vary import VarySpec


class EvaluateSpec(Spec):
    """Each held-out sample of a data set is asked once, in the load's scenario, and once alone; without a load twice
    alone."""

    dataset: Annotated[Slug, Versioned()] | None = None
    """Which; ``inferbench datasets list`` has them. The model's own unless given. With a constraint on the version of
    its manifest, ``words@^1``, it is refused where it is another one."""
    path: RelativePath | None = None
    """Of ``folder``, ``imagenet-val``, ``table``, ``arrays``, ``coco`` and ``squad``: yours, relative to the
    submission."""
    split: Slug | None = None
    """Which part of a data set that is named, ``train`` or ``test``: ``inferbench datasets list`` has those of ours. Of
    yours a folder with the folders of the classes, of a table the rows whose column ``split`` says so. The usual one
    unless given: what is held out, and of yours all that is there."""
    samples: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """So many, by chance (``load.seed``); all that there are unless given."""
    part: PartText | None = None
    """Only a part of these samples, ``1/2`` or ``2/2``, as a job of ``parts`` has it; or by hand, where the other parts
    are asked elsewhere. ``inferbench evaluations together`` makes one evaluation of runs that are named."""
    parts: PartsCount | None = None
    """In so many parts, each a job of its own, side by side on the devices that there are: report, lists and page show
    them as one evaluation, exact. ``auto``: as many as it takes for each one's samples to fit (2 GiB). A load is then
    one of each part."""
    measures: Annotated[tuple[str, ...], Field(strict=False, min_length=1, max_length=50)] | None = None
    """Which; each must fit the data set and the model, or nothing is started. All that fit unless given."""
    tolerance_ratio: Annotated[float, Field(gt=0, le=1)] | None = None
    """Bound on max|under load - alone| / max|alone| of the server's own answers; the noise of the precision unless
    given."""
    vary: VarySpec | None = None
    """What each change of the pre-processing does to accuracy and time: each sample once more for each change."""
    spans: SpansSpec | None = None
    """Of questions about texts (``squad``): the tokenizer, and how scores of starts and ends become an answer."""

    @model_validator(mode="after")
    def _path_of_a_data_set(self) -> EvaluateSpec:
        if self.path is not None and self.dataset is None:
            raise ValueError("path goes with dataset: folder, table, arrays, coco, squad; give that too")
        if self.split is not None and self.dataset is None:
            raise ValueError(
                "split goes with dataset; without, the model's own held-out samples are asked: name the data set"
            )
        if self.parts is not None and self.part is not None:
            raise ValueError("part is one of parts; leave one of both out")
        return self
