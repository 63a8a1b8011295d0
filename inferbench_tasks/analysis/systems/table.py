"""The model x system table: how right, how soon, how much, at what cost, of each model on each stack and system.

Columns are those of MLModelScope's evaluation (C. Li et al., arXiv 1911.08031): online latency with its trimmed mean,
best throughput with its batch size, accuracy; and memory, cold start, energy and cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.analysis import model_names, steadiness
from inferbench_tasks.analysis.certainty import Estimate, of_answers, of_one_run
from inferbench_tasks.analysis.price_ground import priced_at
from inferbench_tasks.analysis.report.runs import load_runs
from inferbench_tasks.analysis.stated import stated
from inferbench_tasks.analysis.systems.found import (
    ROW,
    Document,
    Found,
    found_among,
    put_together,
    throughput,
)
from inferbench_tasks.analysis.systems.ranks import rank
from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import judged_on
from inferbench_tasks.perfdb.held import Held, Row, held, identity
from inferbench_tasks.perfdb.store import PerfDB

#: Of the sorted latencies so large a share is left out at each end.
TRIMMED = 0.2
#: Fewer latencies are not trimmed.
_LEAST = 10
#: The trimmed means of so many runs are kept.
_MOST_MEANS = 100_000
#: So many tables are kept, each of the results that it was made of.
_MOST_TABLES = 8
#: Column -> what it is of, for people.
MEANINGS = {
    "measure": "which measure of the answers: top-1, else the first that the run has",
    "quality": "that measure, over the samples in judged_on; with its 95% interval",
    "trimmed_mean_ms": "mean of the latencies of one user who asks one sample and waits, without the fifth at each end",
    "p90_ms": "p90 of the same run",
    "p99_ms": "p99 of the same run",
    "throughput_samples_per_s": "largest of the saturated runs (offline; closed_loop of several users or batches, who "
    "do not think), the newest of each load and batch size",
    "batch_size": "samples in a request of that run",
    "batch_sizes": "how many batch sizes were measured",
    "rss_bytes": "memory of the server in that run; of the online run where nothing was saturated",
    "cold_start_ms": "from the start of the server to its first answer, newest run with a load",
    "joule_per_sample": "energy of a sample in that run, by energy_method",
    "cost_usd_per_1k_samples": "cost of 1,000 samples in that run, by the price of price_date",
    "inputs": "sizes of free inputs, and processors, where they are given: rows are ranked among those of the same",
    "model_apart": "framework, or content, where models of one name are here",
    "not_steady": "why the throughput of that run is of a rate that moved, with what is made of it",
}
#: What is ranked -> whether more is better.
RANKED = {
    "trimmed_mean_ms": False,
    "p90_ms": False,
    "p99_ms": False,
    "throughput_samples_per_s": True,
    "rss_bytes": False,
    "cold_start_ms": False,
    "joule_per_sample": False,
    "cost_usd_per_1k_samples": False,
}

#: Column -> which column names the run that its figure is of.
RUN_OF = {
    "quality": "judged_run",
    "trimmed_mean_ms": "online_run",
    "p90_ms": "online_run",
    "p99_ms": "online_run",
    "throughput_samples_per_s": "best_run",
    "rss_bytes": "memory_run",
    "cold_start_ms": "cold_start_run",
    "joule_per_sample": "best_run",
    "cost_usd_per_1k_samples": "best_run",
}

Trimmed = Callable[[str], float | None]


def table(db: PerfDB, models: Sequence[str] = (), *, required: bool = True) -> list[dict[str, Any]]:
    """A row for each model, stack and system with a valid run; ``rank_COLUMN``: within the model, 1 is best;
    ``tie_COLUMN``: why it shares a rank with a better one.

    InputError for a model of which there is no such run, with those that there are, where each is ``required``.
    """
    index = held(db)
    results = found_among(db, models)
    # After that took in what changed, which gives up what was made of it; before more is read, to be put into it.
    tables: dict[tuple[tuple[str, int], ...], list[dict[str, Any]]] = index.kept(
        "systems tables", _MOST_TABLES
    )
    of = tuple(map(identity, results))
    made = tables.get(of)
    if made is None:
        made = tables[of] = _made(db, index, results)
    there = {row["model"] for row in made}
    if missing := [model for model in models if required and model not in there]:
        known = sorted(set(map(str, map(index.values("model.name"), index.rows()))))
        raise InputError(
            f"no valid run of {', '.join(missing)}; there are some of: {', '.join(known) or 'none'}",
            field="MODEL",
        )
    return [row.copy() for row in made]


def _made(db: PerfDB, index: Held, results: Sequence[Row]) -> list[dict[str, Any]]:
    found = put_together(db, results)
    attempts = {each.online["run_id"]: each.online["attempt"] for each in found if each.online}
    means: dict[tuple[str, int], float | None] = index.kept("trimmed means", _MOST_MEANS)

    def trimmed(run: str) -> float | None:
        of = run, attempts[run]
        if of not in means:  # it takes all its latencies
            means[of] = _trimmed_of(db, run)
        return means[of]

    return rows(found, trimmed)


def rows(found: Sequence[Found], trimmed: Trimmed) -> list[dict[str, Any]]:
    """The table of these; ``trimmed``: the trimmed mean latency of a run, ms."""
    told = model_names.apart(each.about["named"] for each in found)
    made = [
        _row(each, trimmed)
        | {"model_apart": told[each.about["named"]] or None, "not_steady": _unsteady(each)}
        for each in found
    ]
    for column, higher in RANKED.items():
        group = _GROUPS.get(column, _same_model)
        rank(
            made,
            column,
            [_estimate(each, row, column) for each, row in zip(found, made, strict=True)],
            higher,
            group,
            FIGURES.get(column),
        )
    for row in made:
        row["rank_quality"] = row["tie_quality"] = None
    for measure in dict.fromkeys(row["measure"] for row in made if row["measure"]):
        figure = FIGURES.get(measure)
        if figure is None or figure.better is None:
            continue
        part = [(each, row) for each, row in zip(found, made, strict=True) if row["measure"] == measure]
        estimates = [
            of_answers([row["quality"]], stated=stated(figure, each.judged or {})) for each, row in part
        ]
        rank([row for _, row in part], "quality", estimates, figure.better == "higher", _same_samples, figure)
    return made


def trimmed_mean(sorted_ms: NDArray[np.float64]) -> float | None:
    """The mean without the fifth at each end (MLModelScope's); None of fewer than ten latencies."""
    cut = int(TRIMMED * len(sorted_ms))
    return float(sorted_ms[cut : len(sorted_ms) - cut].mean()) if len(sorted_ms) >= _LEAST else None


def _row(found: Found, trimmed: Trimmed) -> dict[str, Any]:
    online, best = found.online, found.best
    name, measure = _measure(found.judged)
    memory = best or online
    return {
        **{column: found.about[column] for column in (*ROW, "model_digest", "settings", "inputs")},
        "task": found.about["task"] or None,
        "measure": name,
        "quality": measure.get("value"),
        "quality_ci95": measure.get("ci95"),
        "judged_on": judged_on.of_document(found.judged) if found.judged else None,
        "trimmed_mean_ms": _latency(online, trimmed),
        "p90_ms": _figure(online, "p90_ms"),
        "p99_ms": _figure(online, "p99_ms"),
        "throughput_samples_per_s": throughput(best) if best else None,
        "batch_size": (value_at(best, "load.batch_size") or 1) if best else None,
        "batch_sizes": len(found.batches),
        "rss_bytes": _figure(memory, "rss_bytes"),
        "cold_start_ms": _figure(found.newest, "cold_start_ms"),
        "joule_per_sample": _figure(best, "joule_per_sample"),
        "energy_method": value_at(best, "summary.energy.method") if best else None,
        "cost_usd_per_1k_samples": _figure(best, "cost_usd_per_1k_samples"),
        "price_date": priced_at(best.get("summary") or {}) if best else None,
        "online_run": online and online["run_id"],
        "best_run": best and best["run_id"],
        "judged_run": found.judged and found.judged["run_id"],
        "memory_run": memory and memory["run_id"],
        "cold_start_run": found.newest and found.newest["run_id"],
    }


def _unsteady(found: Found) -> str | None:
    """Why the throughput, with what is made of it, is of a rate that moved; None where nothing says so."""
    return steadiness.unsteady(FIGURES["throughput_samples_per_s"], found.best) if found.best else None


def _measure(document: Document | None) -> tuple[str | None, dict[str, Any]]:
    """The measure that stands for how right a run's answers are: in the order of the table of figures, top-1 first."""
    measures: dict[str, Any] = (value_at(document, "summary.quality") if document else None) or {}
    names = [*(name for name in FIGURES if name in measures), *sorted(measures)]
    return (names[0], measures[names[0]]) if names else (None, {})


def _figure(document: Document | None, name: str) -> float | None:
    return None if document is None else FIGURES[name].stored(document.get("summary") or {})


def _latency(document: Document | None, trimmed: Trimmed) -> float | None:
    """None where the run's own mean was withheld: what is not shown there is not shown here."""
    if document is None or value_at(document, "summary.e2e_latency_ms.mean") is None:
        return None
    return trimmed(document["run_id"])


def _trimmed_of(db: PerfDB, run: str) -> float | None:
    views = load_runs(db, [run])
    latencies = views[0].latencies_ms if views else None
    return None if latencies is None else trimmed_mean(latencies)


def _estimate(found: Found, row: dict[str, Any], column: str) -> Estimate | None:
    """What a row's figure says of itself; of the trimmed mean only what runs usually differ by."""
    if row[column] is None:
        return None
    source = found.online if column in ("trimmed_mean_ms", "p90_ms", "p99_ms") else found.best
    if column == "cold_start_ms":
        source = found.newest
    elif column == "rss_bytes":
        source = found.best or found.online
    if column == "trimmed_mean_ms" or source is None:
        return of_one_run(row[column])
    return of_one_run(row[column], stated=stated(FIGURES[column], source))


def _same_model(row: dict[str, Any]) -> tuple[Any, ...]:
    """Asked the same: prompts, sizes of inputs, what processors do."""
    return row["model"], row["task"], row["prompts"], row["inputs"]


def _same_energy(row: dict[str, Any]) -> tuple[Any, ...]:
    return (*_same_model(row), row["energy_method"])


def _same_price(row: dict[str, Any]) -> tuple[Any, ...]:
    """By one price list: what lies between two is no server's."""
    return (*_same_model(row), row["price_date"])


def _same_kind_of_run(row: dict[str, Any]) -> tuple[Any, ...]:
    return (*_same_model(row), row["best_run"] is None)


_GROUPS = {
    "joule_per_sample": _same_energy,
    "rss_bytes": _same_kind_of_run,
    "cost_usd_per_1k_samples": _same_price,
}


def _same_samples(row: dict[str, Any]) -> tuple[Any, ...]:
    """Whatever its load asked beside."""
    return row["model"], row["task"], row["prompts"], row["judged_on"]
