"""Over all models of a list, for each batch size and granularity: how far predictions are off, and what was saved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.predictions import undisturbed
from inferbench_tasks.brick_jobs.result import PredictedModel
from inferbench_tasks.bricks import prediction
from inferbench_tasks.bricks.results import Result

#: A prediction this near to what was measured counts as within.
WITHIN_RATIO = 0.1


def summary(
    cuts: Sequence[CutModel], known: Mapping[str, Result], made: Mapping[int, Sequence[PredictedModel]]
) -> list[dict[str, Any]]:
    """A row for each batch size and granularity, of the models of which everything is known.

    ``judged``: those whose predictions are compared with what was measured, and whose times count; ``disturbed``: so
    many more were measured while the machine was disturbed, and count for nothing here.
    ``speedup_ratio`` as the paper counts it: the models' own times, each copy of them, over the times of their unique
    bricks. Errors are of predicted over measured, each model once: ``geometric_mean``, ``mean_absolute_error_ratio``,
    ``within_ratio`` (the share within a tenth), ``interval_ratio`` (whose 95% interval holds the measured time). So are
    those of sums (``plain``: in the state that is predicted, ``warm``, ``streamed``) and critical paths; and the
    same of predictions calibrated by one factor under ``calibrated``, of the models that have one, by that of other
    families' models alone under ``calibrated_by_other_families``, and by a factor for each class of bricks under
    ``calibrated_by_class``; ``predicted``: of what is predicted of the models that are
    calibrated, by whichever rule that is.
    """
    points = dict.fromkeys((cut.batch_size, cut.granularity) for cut in cuts)
    return [_row(batch, granularity, cuts, known, made) for batch, granularity in points]


class Point(NamedTuple):
    """The models at one batch size and granularity: all, those that are predicted and were measured, and of these the
    ones that are judged, which were measured while the machine was quiet. ``predicted``: by their places."""

    cuts: list[CutModel]
    measured: list[CutModel]
    judged: list[CutModel]
    predicted: dict[int, PredictedModel]


def point_of(
    batch_size: int, granularity: str, cuts: Sequence[CutModel], known: Mapping[str, Result],
    made: Mapping[int, Sequence[PredictedModel]],
) -> Point:  # fmt: skip
    """Which of a list's models count at one of its points."""
    of_point = [cut for cut in cuts if (cut.batch_size, cut.granularity) == (batch_size, granularity)]
    predicted = {
        cut.at: one
        for cut in of_point
        for one in made.get(cut.at, ())
        if (one.batch_size, one.granularity) == (batch_size, granularity)
    }
    measured = [cut for cut in of_point if cut.at in predicted and predicted[cut.at].measured is not None]
    return Point(of_point, measured, [cut for cut in measured if undisturbed(cut, known)], predicted)


def _row(
    batch: int, granularity: str, cuts: Sequence[CutModel], known: Mapping[str, Result],
    made: Mapping[int, Sequence[PredictedModel]],
) -> dict[str, Any]:  # fmt: skip
    of_point, measured, judged, predicted = point_of(batch, granularity, cuts, known, made)
    unique = {part for cut in judged for part in cut.parts}
    unique_ms = math.fsum(_ms(known[part]) for part in unique)
    end_to_end_ms = math.fsum(cut.copies * _ms(known[cut.whole]) for cut in judged)
    all_unique = {part for cut in of_point for part in cut.parts}
    bricks = sum(cut.copies * len(cut.parts) for cut in of_point)
    return {
        "batch_size": batch,
        "granularity": granularity,
        "models": sum(cut.copies for cut in of_point),
        "architectures": len(of_point),
        "bricks": bricks,
        "unique": len(all_unique),
        "unique_ratio": len(all_unique) / bricks if bricks else None,
        "judged": len(judged),
        "disturbed": len(measured) - len(judged),
        "end_to_end_ms": end_to_end_ms if judged else None,
        "unique_bricks_ms": unique_ms if judged else None,
        "speedup_ratio": end_to_end_ms / unique_ms if judged and unique_ms else None,
        "plain": errors([(one.sum, one.measured) for one in _of(judged, predicted)]),
        "warm": errors([(one.warm_sum, one.measured) for one in _of(judged, predicted)]),
        "streamed": errors([(one.streamed, one.measured) for one in _of(judged, predicted)]),
        "parallel": errors([(one.parallel, one.measured) for one in _of(judged, predicted)]),
        "calibrated": errors(
            [(one.calibrated, one.measured) for one in _of(judged, predicted) if one.calibrated is not None]
        ),
        "calibrated_by_other_families": errors(
            [
                (one.calibrated_by_other_families, one.measured)
                for one in _of(judged, predicted)
                if one.calibrated_by_other_families is not None
            ]
        ),
        "predicted": errors(
            [(one.best, one.measured) for one in _of(judged, predicted) if one.calibrated is not None]
        ),
        "calibrated_by_class": errors(
            [
                (one.calibrated_by_class, one.measured)
                for one in _of(judged, predicted)
                if one.calibrated_by_class is not None
            ]
        ),
    }


def errors(pairs: Sequence[tuple[Any, Any]]) -> dict[str, Any] | None:
    """Of (predicted, measured) times; None without any."""
    if not pairs:
        return None
    ratios = [predicted.ms / measured.ms for predicted, measured in pairs]
    return {
        "models": len(ratios),
        "geometric_mean": math.exp(math.fsum(math.log(ratio) for ratio in ratios) / len(ratios)),
        "mean_absolute_error_ratio": math.fsum(abs(ratio - 1) for ratio in ratios) / len(ratios),
        "within_ratio": sum(abs(ratio - 1) <= WITHIN_RATIO for ratio in ratios) / len(ratios),
        "interval_ratio": sum(p.low_ms <= m.ms <= p.high_ms for p, m in pairs) / len(pairs),
    }


def _of(cuts: Sequence[CutModel], predicted: Mapping[int, PredictedModel]) -> list[PredictedModel]:
    return [predicted[cut.at] for cut in cuts]


def _ms(result: Result) -> float:
    return prediction.measured(result).ns / 1e6
