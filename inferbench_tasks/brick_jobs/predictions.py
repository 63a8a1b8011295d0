"""What is predicted of each model, from the stored times of its bricks; a model never calibrates itself."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from inferbench_tasks.brick_jobs.cache_states import nearest_state, of_one_size
from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.families import family_of
from inferbench_tasks.brick_jobs.origins import origins
from inferbench_tasks.brick_jobs.places import Place, hosts_of
from inferbench_tasks.brick_jobs.result import PredictedModel, Times
from inferbench_tasks.brick_jobs.same_models import kinds
from inferbench_tasks.bricks import prediction
from inferbench_tasks.bricks.calibration import CLASSES, ClassFactors, Whole, class_factors, class_of
from inferbench_tasks.bricks.constructors import SUM
from inferbench_tasks.bricks.measure.method import STATES
from inferbench_tasks.bricks.prediction import FEWEST_CALIBRATING, Estimate, StandIns
from inferbench_tasks.bricks.results import Result

#: Where times that were not measured come from (``estimated``, ``interpolated``) -> state of the caches -> whose they
#: are, and how far sums of them in that state may be off.
Unmeasured = Mapping[str, Mapping[str, StandIns]]
NONE: Unmeasured = MappingProxyType({})


def predictions(
    cuts: Sequence[CutModel],
    known: Mapping[str, Result],
    calibrate_on: int,
    constructor: str = SUM,
    unmeasured: Mapping[int, Unmeasured] = MappingProxyType({}),
    wanted: Collection[int] | None = None,
    own: Place | None = None,
) -> dict[int, list[PredictedModel]]:
    """Place in the list -> a prediction for each of the model's cuts, of those all of whose bricks are known.

    A model is calibrated by the first ``calibrate_on`` others of the list, at its batch size and granularity, that
    were measured as a whole, of about its size (``cache_states``) where there are three such: what calling the runtime
    takes is most of a model of microseconds, and nothing of a large one. Never by one that is the same model
    (``same_models``). Of others that are one model the first counts: two versions of one model are off alike, so that
    both would tell of themselves how well a model is predicted that is like neither. Nor by one that was measured while
    the machine was disturbed: such times are of nobody but itself. How far a prediction may be off is told by all such
    others, also by those that do not calibrate it. Beside it stands what others of another family
    alone would predict. Whether warm or streamed times are added up is decided by others of its size.
    ``unmeasured``: place -> which of its bricks' times were not measured. ``wanted``: the places that are predicted,
    all unless given; the others tell of them all the same. ``own``: the host that it is predicted for.
    """
    complete = [cut for cut in cuts if all(part in known for part in cut.parts)]
    sums = {_id(cut): _sums_ns(cut, known, constructor) for cut in complete}
    ratios = {
        _id(cut): _log_ratios(known[cut.whole], sums[_id(cut)])
        for cut in complete
        if cut.whole in known and undisturbed(cut, known)
    }
    table = _Table(known, constructor, sums, ratios, own)
    kind = dict(zip(map(_id, complete), kinds(complete, known), strict=True))
    made: dict[int, list[PredictedModel]] = {}
    for cut in complete:
        if wanted is not None and cut.at not in wanted:
            continue
        others = [
            other
            for other in complete
            if _id(other) in ratios
            and other.at != cut.at
            and kind[_id(other)] != kind[_id(cut)]
            and (other.batch_size, other.granularity) == (cut.batch_size, cut.granularity)
        ]
        distinct: dict[int, CutModel] = {}
        for other in others:
            distinct.setdefault(kind[_id(other)], other)
        by = _Calibrating(cut, list(distinct.values()), calibrate_on, table)
        made.setdefault(cut.at, []).append(_predicted(cut, by, table, unmeasured.get(cut.at, NONE)))
    return made


def undisturbed(cut: CutModel, known: Mapping[str, Result]) -> bool:
    """Whether the machine was quiet when what is known of a model was timed: its bricks, and the model itself."""
    return all(known[name].disturbed is None for name in (*cut.parts, cut.whole) if name in known)


def missing(cut: CutModel, known: Mapping[str, Result]) -> list[str]:
    """The bricks of a model that have no time."""
    return [part for part in dict.fromkeys(cut.parts) if part not in known]


def _id(cut: CutModel) -> tuple[int, int, str]:
    return cut.at, cut.batch_size, cut.granularity


def _sums_ns(cut: CutModel, known: Mapping[str, Result], constructor: str) -> dict[str, float]:
    """State of the caches -> the model's constructed time."""
    bricks = [known[part] for part in cut.parts]
    return {state: prediction.constructed(bricks, cut.needs, state, constructor).ns for state in STATES}


def _log_ratios(whole: Result, sums_ns: Mapping[str, float]) -> dict[str, float]:
    """State -> the logarithm of measured over constructed."""
    measured_ns = prediction.measured(whole).ns
    return {state: math.log(measured_ns / ns) for state, ns in sums_ns.items()}


@dataclass(frozen=True)
class _Table:
    """Of all models: what is known, and by state their constructed times (``sums``) and the logarithms of measured over
    constructed (``ratios``) of those that were measured as a whole."""

    known: Mapping[str, Result]
    constructor: str
    sums: Mapping[tuple[int, int, str], Mapping[str, float]]
    ratios: Mapping[tuple[int, int, str], Mapping[str, float]]
    own: Place | None

    def warm_ns(self, cut: CutModel) -> float:
        """What tells how large a model is."""
        return self.sums[_id(cut)]["warm"]


class _Calibrating:
    """The other models that tell of one, all of them measured as a whole: those of about its size, where there are
    three or more. ``state``: that which they were nearer in; the first ``count`` of them calibrate it."""

    def __init__(self, own: CutModel, others: Sequence[CutModel], count: int, table: _Table) -> None:
        own_ns = table.warm_ns(own)
        near = [cut for cut in others if of_one_size(table.warm_ns(cut), own_ns)]
        self._own, self._all, self._count, self._table = own, others, count, table
        self._others = near if len(near) >= FEWEST_CALIBRATING else others
        judging = [(table.warm_ns(cut), table.ratios[_id(cut)]) for cut in self._others]
        self.state = nearest_state(own_ns, judging)
        self._logs = [logs[self.state] for _, logs in judging]

    def of_other_families(self) -> _Calibrating:
        """The same, as if nothing of the model's family had been measured."""
        family = family_of(self._own.name)
        others = [cut for cut in self._all if family_of(cut.name) != family]
        return _Calibrating(self._own, others, self._count, self._table)

    def used(self) -> set[str]:
        """What is used of those that calibrate: their bricks, and they themselves."""
        return {name for cut in self._others[: self._count] for name in (*cut.parts, cut.whole)}

    def names(self) -> list[str]:
        return [cut.name for cut in self._others[: self._count]]

    def told_by(self) -> list[str]:
        """What the others are timed as, whose own times tell of it: those that calibrate it first. Of too few nobody
        does."""
        return [cut.whole for cut in self._others] if len(self._others) >= FEWEST_CALIBRATING else []

    def one(self) -> prediction.Calibration | None:
        """One factor for all of a model's time."""
        return prediction.calibration_by(self._logs[: self._count], self._logs[self._count :])

    def sums(self) -> prediction.SumError | None:
        """How far the others' sums are off, as they are."""
        return prediction.sum_error(self._logs)

    def classes(self) -> ClassFactors | None:
        """Of sums only: what else is constructed is not made of parts."""
        if self._table.constructor != SUM:
            return None
        cuts, known = self._others[: self._count], self._table.known
        wholes = [
            Whole(prediction.measured(known[cut.whole]).ns, by_class)
            for cut in cuts
            if (by_class := class_ns(cut, known, self.state)) is not None
        ]
        return class_factors(wholes) if len(wholes) == len(cuts) else None


def class_ns(cut: CutModel, known: Mapping[str, Result], state: str) -> dict[str, float] | None:
    """Class -> the constructed time of the model's bricks; None where the work of some was never counted."""
    classes = {one.identity: class_of(one.operators, one.flops, one.moved_bytes) for one in cut.work}
    if not set(cut.parts) <= classes.keys():
        return None
    sums = dict.fromkeys(CLASSES, 0.0)
    for part in cut.parts:
        sums[classes[part]] += float(np.mean(known[part].rounds_ns[state]))
    return sums


def _predicted(cut: CutModel, by: _Calibrating, table: _Table, unmeasured: Unmeasured) -> PredictedModel:
    known, constructor, state = table.known, table.constructor, by.state
    bricks = [known[part] for part in cut.parts]
    shares = {
        how: prediction.stand_ins_ratio(bricks, cut.needs, of[state], state, constructor)
        for how, of in unmeasured.items()
    }
    constructed = _constructed(cut, bricks, state, constructor, unmeasured)
    calibration, classes, sums = by.one(), by.classes(), by.sums()
    of_cut = class_ns(cut, known, state)
    calibrating = by.used() if calibration else set()
    used = {*cut.parts} | calibrating  # its own whole is only compared with it
    not_measured = {how: of[state].identities for how, of in unmeasured.items()}
    return PredictedModel(
        timed_on=hosts_of([known[name] for name in sorted(used & known.keys())], table.own),
        origins=origins(cut, known, calibrating, not_measured),
        batch_size=cut.batch_size,
        granularity=cut.granularity,
        layers=cut.layers,
        bricks=len(cut.parts),
        unique=len(set(cut.parts)),
        coverage_ratio=max(0.0, 1.0 - math.fsum(shares.values())),
        interpolated_ratio=shares.get("interpolated", 0.0),
        state=state,
        constructed=times(constructed),
        warm=times(prediction.constructed(bricks, cut.needs, "warm", constructor)),
        streamed=times(prediction.constructed(bricks, cut.needs, "streamed", constructor)),
        parallel=times(prediction.constructed(bricks, cut.needs, "warm", "parallel")),
        uncalibrated=times(prediction.uncalibrated(constructed, sums)) if sums else None,
        judged_by=sums.judged_by if sums else 0,
        calibrated=times(prediction.calibrated(constructed, calibration)) if calibration else None,
        calibrated_by_other_families=_of_other_families(cut, bricks, by, constructor, unmeasured),
        factor=calibration.factor if calibration else None,
        calibrated_by=by.names() if calibration else None,
        told_by=by.told_by(),
        calibrated_by_class=times(classes.calibrated(constructed, of_cut)) if classes and of_cut else None,
        class_factors=dict(classes.factors) if classes and of_cut else None,
        class_spread=classes.spread if classes and of_cut else None,
        one_spread=classes.one_spread if classes and of_cut else None,
        measured=times(prediction.measured(known[cut.whole])) if cut.whole in known else None,
        by_operators=prediction.by_operators(bricks, state, not_measured),
    )


def _of_other_families(
    cut: CutModel, bricks: Sequence[Result], by: _Calibrating, constructor: str, unmeasured: Unmeasured
) -> Times | None:
    others = by.of_other_families()
    if (calibration := others.one()) is None:
        return None
    estimate = _constructed(cut, bricks, others.state, constructor, unmeasured)
    return times(prediction.calibrated(estimate, calibration))


def _constructed(
    cut: CutModel, bricks: Sequence[Result], state: str, constructor: str, unmeasured: Unmeasured
) -> Estimate:
    """In one state, with what is not measured in the interval."""
    estimate = prediction.constructed(bricks, cut.needs, state, constructor)
    for of in unmeasured.values():
        estimate = prediction.with_stand_ins(estimate, of[state], bricks, cut.needs, state, constructor)
    return estimate


def times(estimate: Estimate) -> Times:
    """In ms."""
    return Times(ms=estimate.ns / 1e6, low_ms=estimate.low_ns / 1e6, high_ms=estimate.high_ns / 1e6)
