"""What PerfDB holds of a job of kind bricks."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb.documents import DeviceInfo, Document, Extension, ResultBase, RunDocument
from inferbench_tasks.perfdb.finalise import common_fields


class Times(Document):
    """A time and its 95% interval, ms."""

    ms: float
    low_ms: float
    high_ms: float


def _names(value: Any) -> Any:
    """Until their names were kept it was a count."""
    return ["not recorded"] * value if isinstance(value, int) else value


class Origin(Document):
    """Where times of a prediction come from. ``how``: ``measured``, ``interpolated`` or ``estimated`` of the model's
    own bricks, ``calibrating`` of what its factor is of; ``times``: of so many different bricks, or whole models;
    ``hosts``: the names of those that they, or what they follow from, were measured on."""

    how: Literal["measured", "interpolated", "estimated", "calibrating"]
    times: int
    hosts: list[str]


class PredictedModel(Document):
    """One model at one batch size and granularity.

    ``coverage_ratio``: the share of the constructed time that is measured (of anything but a sum also where the rest is
    as long as it may be); ``interpolated_ratio``: the share that is interpolated between two batch sizes; the rest is
    estimated. ``by_operators``: of the sum of all bricks, whatever is constructed. ``state``: of the caches, in which
    the times are that ``constructed`` adds up; ``warm`` (it is in all results of before) and ``streamed`` are both
    sums. Its interval is of the bricks' spread alone, and leaves out what cutting changes; ``uncalibrated``: the same
    time with that in it, by ``judged_by`` other models that were measured as a whole (at least three; None in results
    of before it was kept). ``calibrated``: the constructed one times one factor, that of the other models
    ``calibrated_by``, with the scatter of all ``judged_by``; ``calibrated_by_other_families``: as if no other model of
    its family were known. ``told_by``: what all ``judged_by`` are timed as, whose own times calibrate it (the first
    ones), choose its state and tell its interval (None in results of before it was kept). ``calibrated_by_class``: each
    class of bricks times a factor of its own, of more than three models. ``class_spread`` and ``one_spread`` are the
    root mean squares of the logarithms by which those models are off, each predicted by the others: the rule that is
    less off is what is predicted (``best``). ``measured``: the model itself, in rounds among the bricks. ``timed_on``:
    the hosts of its bricks' times and of what calibrates it, by name, where these are several, or another than the one
    that it is predicted for (not of ``measured``, nor of ``told_by`` beyond what calibrates); ``origins``: which of
    these times were measured where, and what is not measured (empty in results of before it was kept).
    """

    batch_size: int
    granularity: str
    layers: int
    bricks: int
    unique: int
    coverage_ratio: float
    interpolated_ratio: float = 0.0
    constructed: Times
    state: str = "warm"
    warm: Times | None = None
    streamed: Times
    parallel: Times
    uncalibrated: Times | None = None
    judged_by: int | None = None
    calibrated: Times | None = None
    calibrated_by_other_families: Times | None = None
    factor: float | None = None
    calibrated_by: Annotated[list[str] | None, BeforeValidator(_names)] = None
    told_by: list[str] | None = None
    calibrated_by_class: Times | None = None
    class_factors: dict[str, float] | None = None
    class_spread: float | None = None
    one_spread: float | None = None
    measured: Times | None = None
    by_operators: list[dict[str, Any]] = []
    timed_on: list[str] = []
    origins: list[Origin] = []

    @property
    def by_class(self) -> bool:
        """Whether classes have factors of their own in what is predicted."""
        if self.calibrated_by_class is None or self.class_spread is None or self.one_spread is None:
            return False
        return self.class_spread < self.one_spread

    @property
    def calibrating(self) -> list[str]:
        """What the models that calibrate it are timed as."""
        return (self.told_by or [])[: len(self.calibrated_by or ())]

    @property
    def best(self) -> Times:
        """What is predicted: calibrated where it can be."""
        if self.by_class and self.calibrated_by_class is not None:
            return self.calibrated_by_class
        return self.calibrated or self.sum

    @property
    def warm_sum(self) -> Times:
        """The sum of the warm times, whichever is predicted."""
        return self.warm or self.constructed

    @property
    def sum(self) -> Times:
        """The constructed time, with how far sums are off in its interval where other models tell it."""
        return self.uncalibrated or self.constructed

    @property
    def interval_judged_by(self) -> int:
        """So many other models tell how far what is predicted may be off; 0: its interval is of the bricks' spread
        alone."""
        calibrating = len(self.calibrated_by or ())
        if self.by_class or self.judged_by is None:  # of before all were asked those that calibrated it alone
            return calibrating
        return self.judged_by


class BricksResult(ResultBase):
    """The result of one part of a submission: of a model what is predicted of it, of a shard what it measured."""

    collection: ClassVar[str] = "brick_runs"

    role: str | None = None
    model: Extension = {}
    device: DeviceInfo | None = None
    setting: Extension = {}
    predictions: list[PredictedModel] = []
    counts: Extension = {}

    @property
    def precision(self) -> str:
        """That of its submission; fp32 in results that do not keep it."""
        job: Any = (self.provenance.model_extra or {}).get("job") or {}
        return str((job.get("bricks") or {}).get("precision") or "fp32")


def without_figures(run: RunDocument, verdict: Verdict) -> BricksResult:
    """The result of a run that failed or was cancelled."""
    part = run.job.get("part") or {}
    return BricksResult.model_validate({**common_fields(run, verdict), "role": part.get("role")})
