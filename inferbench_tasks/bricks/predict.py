"""One model's latency: its unique bricks, measured where they were not yet, and what is constructed of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from inferbench_tasks.bricks import prediction
from inferbench_tasks.bricks.brick import Brick, cut
from inferbench_tasks.bricks.layers import layer_graph
from inferbench_tasks.bricks.measure.method import STATES, Method
from inferbench_tasks.bricks.measure.networks import brick_item, needs_of, timed_as, whole_item
from inferbench_tasks.bricks.measure.session import BrickFailed, Session, run_session
from inferbench_tasks.bricks.prediction import Calibration, Estimate
from inferbench_tasks.bricks.results import WHOLE, Result, ResultStore
from inferbench_tasks.bricks.sequences import parse_granularity
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import StageError

#: What is done, how much of how much.
Progress = Callable[[str, float, float | None], None]


@dataclass(frozen=True)
class Prediction:
    """``constructed``: state of the caches -> the constructed time; ``calibrated``: the warm one, by other models.

    ``measured``: the model itself, where that was asked for. ``coverage_ratio``: the share of the constructed time that
    is measured and not estimated. ``disturbed``: why this session's times are not to be trusted and were not kept.
    """

    bricks: int
    unique: int
    measured_now: int
    coverage_ratio: float
    constructed: dict[str, Estimate]
    calibration: Calibration | None
    calibrated: Estimate | None
    measured: Estimate | None
    measured_rounds_ns: tuple[float, ...]
    by_operators: list[dict[str, Any]]
    disturbed: str | None

    def row(self) -> dict[str, Any]:
        """For tables and files, times in ms."""
        best = self.calibrated or self.constructed["warm"]
        row = {
            "bricks": self.bricks,
            "unique": self.unique,
            "measured_now": self.measured_now,
            "coverage_ratio": self.coverage_ratio,
            "predicted_ms": best.ns / 1e6,
            "predicted_interval_ms": [best.low_ns / 1e6, best.high_ns / 1e6],
            "calibration": asdict(self.calibration) if self.calibration else None,
            **{f"constructed_{state}_ms": one.ns / 1e6 for state, one in self.constructed.items()},
        }
        if self.measured is not None:
            row["measured_ms"] = self.measured.ns / 1e6
            row["measured_rounds_ms"] = [ns / 1e6 for ns in self.measured_rounds_ns]
            row["measured_interval_ms"] = [self.measured.low_ns / 1e6, self.measured.high_ns / 1e6]
            row["predicted_over_measured"] = best.ns / self.measured.ns
        return row | {"disturbed": self.disturbed, "by_operators": self.by_operators}


def predict_model(
    model: Path, feeds: Arrays, folder: Path, results: ResultStore, method: Method, *,
    granularity: str, whole: bool, again: bool, constructor: str, progress: Progress,
) -> Prediction:  # fmt: skip
    """Decompose an ONNX model in the runtime's view, time the bricks that are not known, and construct.

    ``whole``: time the model too, among its bricks. ``folder`` is written to. Raises InputError for a granularity above
    the layers, StageError with a layer's name for a brick that can't be timed.
    """
    progress("recording one run", 0, None)
    graph = layer_graph(model, feeds, "runtime", folder)
    bricks = list(cut(graph, parse_granularity(granularity)))
    if not bricks:
        raise StageError("the model has no layers: what it answers is constant")
    [entire] = cut(graph, None)
    whole_name = WHOLE + entire.identity
    parts = tuple(timed_as(graph, brick) for brick in bricks)
    needs = tuple(tuple(before) for before in needs_of(bricks))
    distinct = dict(zip(parts, bricks, strict=True))
    known = {} if again else _known(results, (*distinct, whole_name), method)
    missing = [brick for identity, brick in distinct.items() if identity not in known]
    of_whole = known.get(whole_name)
    items = [brick_item(graph, brick, folder) for brick in missing]
    if whole and of_whole is None:
        items.append(whole_item(whole_name, model, feeds, folder))
    disturbed = None
    if items:
        session = _run(items, folder, results, method, distinct, progress)
        disturbed = why_not(session, method)
        if disturbed is None:
            session = session.at(results.set_base_ns(session.base_ns))
        fresh = _results_of(session, {**distinct, whole_name: entire}, results, method)
        known |= fresh
        of_whole = known.get(whole_name)
        if disturbed is None:
            for result in fresh.values():
                results.put(result)
    if whole and of_whole is not None and of_whole.parts.get(granularity) != parts:
        cuts = {
            "parts": {**of_whole.parts, granularity: parts},
            "needs": {**of_whole.needs, granularity: needs},
        }
        of_whole = of_whole.model_copy(update=cuts)
        if disturbed is None:
            results.put(of_whole)
    in_order = [known[identity] for identity in parts]
    constructed = {state: prediction.constructed(in_order, needs, state, constructor) for state in STATES}
    by = prediction.calibration(results, granularity, "warm", entire.operators, constructor)
    return Prediction(
        len(bricks), len(distinct), len(missing), 1.0, constructed, by,
        prediction.calibrated(constructed["warm"], by) if by else None,
        prediction.measured(of_whole) if whole and of_whole else None,
        of_whole.rounds_ns["warm"] if whole and of_whole else (),
        prediction.by_operators(in_order, "warm"), disturbed,
    )  # fmt: skip


def _run(
    items: list[Any],
    folder: Path,
    results: ResultStore,
    method: Method,
    bricks: dict[str, Brick],
    progress: Progress,
) -> Session:
    try:
        return run_session(
            items, folder, method, threads=results.setting.threads, base_ns=results.base_ns(),
            progress=lambda done, of, what: progress(what, done, of),
        )  # fmt: skip
    except BrickFailed as error:
        if (brick := bricks.get(error.item)) is None:
            raise StageError(f"the model can't be run: {error.why}") from error
        names = " > ".join(layer.node.name or layer.operator for layer in brick.layers)
        raise StageError(f"the brick of {names} can't be timed: {error.why}") from error


def _known(results: ResultStore, names: Iterable[str], method: Method) -> dict[str, Result]:
    """What was timed before, in as many runs as are asked for now."""
    found = results.get_many(names)
    return {name: result for name, result in found.items() if result.method.covers(method)}


def _results_of(
    session: Session, bricks: dict[str, Brick], results: ResultStore, method: Method
) -> dict[str, Result]:
    name = uuid.uuid4().hex
    return {
        identity: Result(
            identity=identity, key=bricks[identity].key, operators=bricks[identity].operators, setting=results.setting,
            session=name, method=method, rounds_ns={s: tuple(times) for s, times in timed.rounds_ns.items()},
            raw_ns={s: tuple(tuple(one) for one in rounds) for s, rounds in timed.raw_ns.items()},
        )
        for identity, timed in session.timed.items()
    }  # fmt: skip


def why_not(session: Session, method: Method) -> str | None:
    """Why a session's times are not kept; None where they are."""
    if session.quiet:
        return None
    return (
        f"the machine was not quiet: {session.good_rounds} of {session.rounds} rounds were at its level and had their "
        f"cores to themselves, {method.rounds} are needed; these times are not kept"
    )
