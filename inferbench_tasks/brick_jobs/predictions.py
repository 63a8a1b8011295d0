"""What is predicted of each model, from the stored times of its bricks; a model never calibrates itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.result import PredictedModel, Times
from inferbench_tasks.bricks import prediction
from inferbench_tasks.bricks.prediction import Estimate, StandIns
from inferbench_tasks.bricks.results import Result

#: Where times that were not measured come from (``estimated``, ``interpolated``) -> whose they are.
Unmeasured = Mapping[str, StandIns]
NONE: Unmeasured = MappingProxyType({})


def predictions(
    cuts: Sequence[CutModel],
    known: Mapping[str, Result],
    calibrate_on: int,
    constructor: str = "sequential",
    unmeasured: Mapping[int, Unmeasured] = MappingProxyType({}),
) -> dict[int, list[PredictedModel]]:
    """Place in the list -> a prediction for each of the model's cuts, of those all of whose bricks are known.

    A model is calibrated by the first ``calibrate_on`` others of the list, at its batch size and granularity, that
    were measured as a whole; never by one of the same operators in the same order, which is the same model.
    ``unmeasured``: place -> which of its bricks' times were not measured.
    """
    complete = [cut for cut in cuts if all(part in known for part in cut.parts)]
    ratios = {_id(cut): _log_ratio(cut, known, constructor) for cut in complete if cut.whole in known}
    made: dict[int, list[PredictedModel]] = {}
    for cut in complete:
        by = [
            ratios[_id(other)]
            for other in complete
            if _id(other) in ratios
            and other.at != cut.at
            and other.operators != cut.operators
            and (other.batch_size, other.granularity) == (cut.batch_size, cut.granularity)
        ][:calibrate_on]
        made.setdefault(cut.at, []).append(
            _predicted(cut, known, by, constructor, unmeasured.get(cut.at, NONE))
        )
    return made


def missing(cut: CutModel, known: Mapping[str, Result]) -> list[str]:
    """The bricks of a model that have no time."""
    return [part for part in dict.fromkeys(cut.parts) if part not in known]


def _id(cut: CutModel) -> tuple[int, int, str]:
    return cut.at, cut.batch_size, cut.granularity


def _log_ratio(cut: CutModel, known: Mapping[str, Result], constructor: str) -> float:
    whole = prediction.measured(known[cut.whole])
    bricks = [known[part] for part in cut.parts]
    return math.log(whole.ns / prediction.constructed(bricks, cut.needs, "warm", constructor).ns)


def _predicted(
    cut: CutModel,
    known: Mapping[str, Result],
    by: Sequence[float],
    constructor: str,
    unmeasured: Unmeasured,
) -> PredictedModel:
    bricks = [known[part] for part in cut.parts]
    warm = prediction.constructed(bricks, cut.needs, "warm", constructor)
    shares = {how: prediction.share_ratio(bricks, of.identities, "warm") for how, of in unmeasured.items()}
    for how, of in unmeasured.items():
        warm = prediction.with_stand_ins(warm, shares[how], of)
    calibration = prediction.calibration_by(by)
    return PredictedModel(
        batch_size=cut.batch_size,
        granularity=cut.granularity,
        layers=cut.layers,
        bricks=len(cut.parts),
        unique=len(set(cut.parts)),
        coverage_ratio=max(0.0, 1.0 - math.fsum(shares.values())),
        interpolated_ratio=shares.get("interpolated", 0.0),
        constructed=times(warm),
        streamed=times(prediction.constructed(bricks, cut.needs, "streamed", constructor)),
        parallel=times(prediction.constructed(bricks, cut.needs, "warm", "parallel")),
        calibrated=times(prediction.calibrated(warm, calibration)) if calibration else None,
        factor=calibration.factor if calibration else None,
        calibrated_by=calibration.models if calibration else None,
        measured=times(prediction.measured(known[cut.whole])) if cut.whole in known else None,
        by_operators=prediction.by_operators(
            bricks, "warm", {how: of.identities for how, of in unmeasured.items()}
        ),
    )


def times(estimate: Estimate) -> Times:
    """In ms."""
    return Times(ms=estimate.ns / 1e6, low_ms=estimate.low_ns / 1e6, high_ms=estimate.high_ns / 1e6)
