"""Two evaluations of the very same samples, in pairs: how many samples they differ in, and which is better by how much.

Two accuracies whose intervals overlap may well differ in pairs: what is hard for one is mostly hard for the other.
Shares of right answers (top-1, top-5, agreement) are compared by McNemar's exact test, everything else by drawing the
samples of both together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.analysis.evaluations.differing import PARTS, RANK, TOP5, beyond_rounding, differing
from inferbench_tasks.analysis.evaluations.listed import answered_alike, evaluation_of
from inferbench_tasks.contracts.named_classes import NO_CLASS
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import judged_on
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.quality.base import Measure
from inferbench_tasks.quality.bootstrap import FEWEST_SAMPLES
from inferbench_tasks.quality.measures import MEASURES
from inferbench_tasks.quality.paired import paired
from inferbench_tasks.quality.paired_bootstrap import DRAWS, Difference, paired_bootstrap
from inferbench_tasks.quality.paired_macro_f1 import paired_macro_f1
from inferbench_tasks.quality.targets import TargetMeasure
from inferbench_tasks.quality.top_k import FIVE
from inferbench_tasks.registry import derived

MCNEMAR, BOOTSTRAP = "McNemar, exact", "paired bootstrap"
#: What is drawn anew has at most so many samples: more take minutes.
MOST_DRAWN = 20_000
#: A difference is told where chance makes one as large this seldom.
SETTLED = 0.05
#: Share -> the column that its right answers are told by.
_SHARES = {"top1_ratio": "label", "agreement_ratio": "answer_source"}
_COLUMNS = ("label", "answer", "score", "latency_ms")


def compare(
    first: ResultDocument,
    second: ResultDocument,
    tables: tuple[pa.Table, pa.Table],
    limit: int = 50,
    offset: int = 0,
) -> dict[str, Any]:
    """{runs, verdicts, judged_on, samples, bit_equal, differ, measures, sentences, differing, next_offset}.

    ``tables``: what was answered to each sample (``stages.answers_table``). ``bit_equal``: whether both answered every
    single sample alike to the last bit; None where a result does not tell. ``differ``: samples to which the two
    answered another class, or whose parts of a measure differ; None where neither is kept. ``measures``: a row for
    each that both have. ``differing``: those samples, ``limit`` of them from ``offset`` on.
    InputError where one was not evaluated, or not the very same samples were asked.
    """
    evaluations = [evaluation_of(each) for each in (first, second)]
    _require_same(first, second, labelled=all(_complete(table, "label") for table in tables))
    one, two = (table.sort_by("sample") for table in tables)
    for name in ("sample", "label"):
        if not one[name].equals(two[name]):
            raise InputError(
                f"{second.run_id} was asked other samples than {first.run_id}: no pairs", field="RUN"
            )
    found = differing(one, two)
    differs, told = found or (None, "")
    places = np.flatnonzero(differs) if differs is not None else np.empty(0, dtype=np.int64)
    values = [((each.get("under_load") or {}).get("measures") or {}) for each in evaluations]
    bit_equal = answered_alike(*evaluations)
    told = told.format(len(places), one.num_rows)
    if bit_equal:
        alike = f"They answer all {one.num_rows:,} samples alike, to the last bit"
        # The digest is of single requests; the table is of those in the load's own scenario.
        told = f"{alike}, one by one; in their loads they don't. {told}" if len(places) else f"{alike}."
    measures = [
        _measure(name, values[0][name], values[1][name], one, two) for name in values[0] if name in values[1]
    ]
    shown = places[offset : offset + limit]
    return {
        "runs": [first.run_id, second.run_id],
        "verdicts": [str(first.verdict), str(second.verdict)],
        "judged_on": judged_on.of_result(first),
        "samples": one.num_rows,
        "bit_equal": bit_equal,
        "differ": None if differs is None else len(places),
        "measures": measures,
        "sentences": _sentences(first, second, told, measures),
        "differing": _rows(one, two, shown),
        "next_offset": offset + limit if offset + limit < len(places) else None,
    }


#: Said where nobody has the digest of the samples.
_NEEDED = (
    "; no digest tells which samples of a model's own data its parts were asked: they need labels, and the same model "
    "(name, version, source) and seed"
)


def _require_same(first: ResultDocument, second: ResultDocument, labelled: bool) -> None:
    if not judged_on.same_samples(first, second, labelled):
        which, other = judged_on.of_result(first), judged_on.of_result(second)
        drawn = judged_on.other_samples(first, second)
        why = f"{drawn}: {other}" if drawn else other
        raise InputError(
            f"only the same samples make pairs: {second.run_id} was evaluated on {why}, {first.run_id} on {which}"
            + (_NEEDED if judged_on.samples_unknown(first, second) else ""),
            field="RUN",
        )
    data = evaluation_of(first).get("data")
    if data and not data.get("digest"):
        raise InputError(
            f"{first.run_id} does not say which content of {data.get('name')} it saw; evaluate it again",
            field="RUN",
        )


def _complete(table: pa.Table, *names: str) -> bool:
    return bool(table.num_rows) and not any(table[name].null_count for name in names)


def _measure(
    name: str, first: dict[str, Any], second: dict[str, Any], one: pa.Table, two: pa.Table
) -> dict[str, Any]:
    """``difference``: the second's figure less the first's; interval and p None where it can't be had, with the why."""
    figure = FIGURES.get(name)
    row = {
        "measure": name,
        "title": figure.title if figure else name,
        "better": figure.better if figure else None,
        "first": first["value"],
        "second": second["value"],
        "difference": second["value"] - first["value"],
        "ci95": None,
        "p_value": None,
        "method": None,
        "why": None,
    }
    told = _paired(name, one, two)
    # What the samples give has to be what the results say, or it is of something else.
    if "difference" in told and not math.isclose(told["difference"], row["difference"], abs_tol=1e-6):
        told = {"why": "what is kept of the samples does not give the results' figures"}
    return row | told


def _paired(name: str, one: pa.Table, two: pa.Table) -> dict[str, Any]:
    """What the pairs say of a measure: {difference, ci95, p_value, method}, or {why} they can't."""
    if name in _SHARES:
        return _share(one, two, _SHARES[name])
    if name == TOP5:
        kept = all(RANK in table.column_names and _complete(table, RANK) for table in (one, two))
        return _told_of_pairs(*(table[RANK].to_numpy() < FIVE for table in (one, two))) if kept else _WHY
    if name == "macro_f1":
        return _macro_f1(one, two) if _labelled(one, two) else _WHY
    if (column := f"{PARTS}{name}") in one.column_names and column in two.column_names:
        try:
            return MEASURES.told(name, partial(_by_parts, one[column], two[column]))
        except InputError as error:  # a package's that can't be used here; who measured may have had it
            return {"why": str(error)}
    return _WHY


def _by_parts(one: pa.ChunkedArray, two: pa.ChunkedArray, kind: type[Measure]) -> dict[str, Any]:
    measure = derived(kind, Measure)()
    if not isinstance(measure, TargetMeasure):
        return _WHY
    figures = _of_parts(measure, one.to_pylist(), two.to_pylist())
    return _drawn(len(one), figures, min(DRAWS, measure.draws))


_WHY = {"why": "what it needs of each sample is not kept"}


def _labelled(one: pa.Table, two: pa.Table) -> bool:
    return all(_complete(table, "label", "answer") for table in (one, two))


def _share(one: pa.Table, two: pa.Table, right: str) -> dict[str, Any]:
    if not all(_complete(table, right, "answer") for table in (one, two)):
        return _WHY
    # An answer that names no class (-1) is never right, and agrees with nothing.
    is_right = [
        (table["answer"].to_numpy() == table[right].to_numpy()) & (table["answer"].to_numpy() != NO_CLASS)
        for table in (one, two)
    ]
    return _told_of_pairs(*is_right)


def _told_of_pairs(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> dict[str, Any]:
    """What McNemar's test says of which samples each has right."""
    pair = paired(first, second)
    return {
        "only_first": pair.only_first,
        "only_second": pair.only_second,
        "difference": pair.difference_ratio,
        "ci95": [pair.low, pair.high],
        "p_value": pair.p_value,
        "method": MCNEMAR,
    }


_Figures = Callable[[NDArray[np.intp]], tuple[float, float]]


def _macro_f1(one: pa.Table, two: pa.Table) -> dict[str, Any]:
    if why := _too_many_or_few(one.num_rows):
        return why
    columns = (one["label"], one["answer"], two["answer"])
    return _told(paired_macro_f1(*(column.to_numpy() for column in columns)))


def _of_parts(measure: TargetMeasure, first: list[Any], second: list[Any]) -> _Figures:
    parts = [[np.asarray(each, dtype=np.float64) for each in side] for side in (first, second)]
    if len({len(part) for side in parts for part in side}) == 1:
        one, two = (np.stack(side) for side in parts)
        return lambda rows: (measure.figure(one[rows]), measure.figure(two[rows]))  # type: ignore[arg-type]

    def figures(rows: NDArray[np.intp]) -> tuple[float, float]:
        a, b = (measure.figure([side[at] for at in rows]) for side in parts)
        return a, b

    return figures


def _drawn(samples: int, figures: _Figures, draws: int = DRAWS) -> dict[str, Any]:
    return _too_many_or_few(samples) or _told(paired_bootstrap(samples, figures, draws))


def _too_many_or_few(samples: int) -> dict[str, Any]:
    if FEWEST_SAMPLES <= samples <= MOST_DRAWN:
        return {}
    return {"why": f"samples are drawn anew of {FEWEST_SAMPLES} to {MOST_DRAWN:,}; these are {samples:,}"}


def _told(found: Difference) -> dict[str, Any]:
    if not all(math.isfinite(each) for each in (found.value, found.low or 0.0, found.high or 0.0)):
        return {"why": "some draws of the samples have no figure"}
    return {
        "difference": found.value,
        "ci95": None if found.low is None else [found.low, found.high],
        "p_value": found.p_value,
        "method": BOOTSTRAP,
    }


def _sentences(
    first: ResultDocument, second: ResultDocument, told: str, measures: list[dict[str, Any]]
) -> list[str]:
    texts = [f"{each.run_id} does not count: {each.verdict}" for each in (first, second) if not each.valid]
    if (evaluation_of(first).get("data") or {}).get("training"):
        texts.append(
            "Models are usually trained on these samples: how many are right says little of new ones."
        )
    if told:
        texts.append(told)
    for row in measures:
        if row["p_value"] is None:
            continue
        higher = row["difference"] > 0
        side = ("worse", "better")[higher == (row["better"] == "higher")]
        if row["better"] is None:  # a measure of a package's own, whose direction nobody said
            side = "higher" if higher else "lower"
        word = "no difference can be told"
        real = beyond_rounding(row["difference"], row["first"], row["second"])
        if row["p_value"] < SETTLED and real:
            word = f"the second is {abs(row['difference']):.4g} {side}"
        texts.append(f"{row['title']}: {word} (p {row['p_value']:.2g}, {row['method']}).")
    if sum(row["p_value"] is not None for row in measures) > 1:
        texts.append("Each p stands for itself; of many measures one is small by chance.")
    return texts


def _rows(one: pa.Table, two: pa.Table, places: NDArray[np.int64]) -> list[dict[str, Any]]:
    first, second = (
        table.select(["sample", *_COLUMNS]).take(pa.array(places)).to_pylist() for table in (one, two)
    )
    return [
        {"sample": a["sample"], "label": a["label"]}
        | {f"first_{name}": a[name] for name in _COLUMNS[1:]}
        | {f"second_{name}": b[name] for name in _COLUMNS[1:]}
        for a, b in zip(first, second, strict=True)
    ]
