"""Evaluations as rows: how right a run's answers were, on which samples, beside how fast it was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inferbench_tasks.analysis.evaluations.under_load import bound_of, counted
from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import judged_on
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.offered import offered

#: The figures of speed that stand beside the measures.
SPEED = ("p50_ms", "p99_ms", "throughput_samples_per_s", "joule_per_sample", "cost_usd_per_1k_samples")
HERE = "extensions.evaluation"
#: Where a result says which part it is of.
PART = "provenance.job.evaluate.part"
#: That models are usually trained on these very samples.
TRAINING = f"{HERE}.data.training"
_PARTS = (
    "scenario", "answers_are", "differing", "under_load", "one_by_one.answers_digest", "tolerance_ratio",
    "data.generated", "data.split", "parts",
)  # fmt: skip
PATHS = (
    "run_id", "attempt", "created_at", "model.name", "model.precision", "format", "backend.kind", "backend.version",
    "device.kind", "device.name", "load", "verdict", *(f"{HERE}.{part}" for part in _PARTS), *judged_on.PATHS,
    *(FIGURES[name].field_path for name in SPEED), "summary.energy.method", PART, TRAINING,
)  # fmt: skip


def row(document: dict[str, Any]) -> dict[str, Any]:
    """Of a result as plain nested mappings.

    ``measures``: name -> {value, ci95}; empty where they are ``withheld`` (why), and those that the answers don't
    have. ``part``: of a run that asked only that, ``1/8``; ``parts``: of how many the row is, each part's answers once;
    its ``run`` is the first of them, and it has no speed, for each part had a load of its own. ``split``: which part of
    the data set, None where it has no parts with names; ``training``: models are usually trained on these very samples,
    so that how many are right says little of new ones. ``otherwise``: samples that were answered otherwise under load
    than alone (without a load: than the first time), by more than ``otherwise_bound_ratio`` of the largest value or by
    their class; the furthest apart were ``otherwise_largest_ratio`` (None: other texts or shapes, or no finite number).
    ``answers_digest``: of all answers to single samples, see ``contracts.answers_digest``; None of results from before
    it was stored, and where a sample got no answer.
    """
    evaluation = value_at(document, HERE) or {}
    under_load = evaluation.get("under_load") or {}
    measures = {
        name: {"value": each.get("value"), "ci95": each.get("ci95")}
        for name, each in (under_load.get("measures") or {}).items()
    }
    summary = {} if evaluation.get("parts") else document.get("summary") or {}
    speed = {name: FIGURES[name].stored(summary) for name in SPEED}
    return {
        "run": document["run_id"],
        "attempt": document["attempt"],
        "part": None if evaluation.get("parts") else value_at(document, PART),
        "parts": evaluation.get("parts"),
        "created": document["created_at"],
        "model": value_at(document, "model.name"),
        "precision": value_at(document, "model.precision"),
        "format": document.get("format"),
        "backend": value_at(document, "backend.kind"),
        "version": value_at(document, "backend.version"),
        "device": value_at(document, "device.kind"),
        "device_name": value_at(document, "device.name"),
        "dataset": evaluation.get("dataset"),
        "split": (evaluation.get("data") or {}).get("split"),
        "training": bool(value_at(document, TRAINING)),
        "samples": evaluation.get("samples"),
        "judged_on": judged_on.of_document(document),
        # Made-up samples of a model that has no data say it in their name alone.
        "generated": bool((evaluation.get("data") or {}).get("generated"))
        or str(evaluation.get("dataset")).endswith("(generated)"),
        "scenario": evaluation.get("scenario"),
        "load": offered(document.get("load") or {}),
        "measures": measures,
        "withheld": under_load.get("withheld"),
        "otherwise": counted(evaluation),
        "otherwise_bound_ratio": bound_of(evaluation),
        "otherwise_largest_ratio": (evaluation.get("differing") or {}).get("largest_ratio"),
        "answers_digest": (evaluation.get("one_by_one") or {}).get("answers_digest"),
        **speed,
        "energy_method": value_at(summary, "energy.method"),
        "verdict": document.get("verdict"),
    }


def flat(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows for CSV and tables: each measure a column, its interval's ends two more."""
    table = []
    for each in rows:
        cells: dict[str, Any] = {}
        for name, measure in each["measures"].items():
            low, high = measure["ci95"] or (None, None)
            cells |= {name: measure["value"], f"{name}_low": low, f"{name}_high": high}
        at = list(each).index("measures")
        items = list(each.items())
        table.append(dict([*items[:at], *cells.items(), *items[at + 1 :]]))
    return table


def evaluation_of(result: ResultDocument) -> dict[str, Any]:
    """What ``evaluate`` found; InputError for a run without the block."""
    evaluation: dict[str, Any] | None = result.extensions.get("evaluation")
    if evaluation is None:
        raise InputError(
            f"{result.run_id} was not evaluated; its submission has no block `evaluate: {{}}`", field="RUN"
        )
    return evaluation


def answered_alike(first: dict[str, Any], second: dict[str, Any]) -> bool | None:
    """Whether two evaluations have the same answer to each single sample, to the last bit; None where one is silent."""
    digests = [(each.get("one_by_one") or {}).get("answers_digest") for each in (first, second)]
    return None if None in digests else digests[0] == digests[1]
