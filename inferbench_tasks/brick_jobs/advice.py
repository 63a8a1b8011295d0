"""Which device for a model, or which model for a task, by predictions from stored times: ranked, and no more said than
they bear.

What is mostly estimated is not ranked. Nor is a prediction that is not calibrated beside ones that are: a sum of bricks
leaves out what cutting changes, by how much nobody measured there, so that no interval could be widened by it. Where
none is calibrated the sums are ranked, without a probability, and that is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scipy import stats

from inferbench_tasks.brick_jobs.ages import age_in_words
from inferbench_tasks.brick_jobs.coverage import MEASURED_RATIO, percent, too_little
from inferbench_tasks.bricks.measure.method import runtime_name
from inferbench_tasks.bricks.prediction import CONFIDENCE

#: So many are recommended.
TOP = 3


def advice(rows: Sequence[Mapping[str, Any]], slo_ms: float | None = None) -> dict[str, Any]:
    """``ranked``: the fastest first, with the probabilities that each is faster than the next, and that its mean time
    is within ``slo_ms``; ``left_out``: the others, and why. Either all that are ranked are calibrated or none is.

    ``rows``: as ``answer`` gives them. Times are means of one request by itself, of ``batch_size`` samples: neither
    waiting nor a server's own work.
    """
    judged, others = [], []
    for row in rows:
        coverage = row["coverage_ratio"]
        if row["predicted_ms"] is None:
            why = row.get("why") or f"{row['missing']} of {row['unique']} unique bricks have no time there"
        elif coverage < MEASURED_RATIO:
            why = too_little(coverage)
        else:
            judged.append(row)
            continue
        others.append({**_who(row), "coverage_ratio": coverage, "why": why})
    calibrated = [row for row in judged if row["calibrated_by"]]
    if calibrated:
        others += [
            {**_who(row), "coverage_ratio": row["coverage_ratio"], "why": _sum_alone(row)}
            for row in judged
            if not row["calibrated_by"]
        ]
        judged = calibrated
    judged.sort(key=lambda row: row["predicted_ms"])
    ranked = []
    for at, row in enumerate(judged[:TOP]):
        beaten = judged[at + 1] if at + 1 < len(judged) else None
        ranked.append(
            {
                "rank": at + 1,
                **_who(row),
                "coverage_ratio": row["coverage_ratio"],
                "predicted_ms": row["predicted_ms"],
                "predicted_interval_ms": row["predicted_interval_ms"],
                "requests_per_s": 1e3 / row["predicted_ms"],
                "samples_per_s": row["batch_size"] * 1e3 / row["predicted_ms"],
                "calibrated_by": row["calibrated_by"],
                "faster_than_next_probability": _faster(row, beaten) if beaten else None,
                "within_slo_probability": None if slo_ms is None else _within(row, slo_ms),
                **{name: row[name] for name in ("oldest_at", "newest_at", "old")},
            }
        )
    return {"slo_ms": slo_ms, "ranked": ranked, "judged": len(judged), "left_out": others}


def in_words(found: Mapping[str, Any]) -> list[str]:
    """What a reader must know, the limits first."""
    ranked, slo_ms = found["ranked"], found["slo_ms"]
    said = [f"Left out: {_named(row)}: {row['why']}." for row in found["left_out"]]
    if not ranked:
        return [*said, "Nothing can be recommended: no prediction is measured enough."]
    if not ranked[0]["calibrated_by"]:
        said.append(
            "Nothing calibrates these predictions, so there is no probability, and the order is that of the bricks' "
            "sums: at least three other models have to be measured as a whole there to tell how far these are off."
        )
    if len(ranked) == 1:
        said.append("There is nothing to compare it with.")
    if found["judged"] > len(ranked):
        said.append(f"The {len(ranked)} fastest of {found['judged']}.")
    if slo_ms is not None:
        known = [row for row in ranked if row["within_slo_probability"] is not None]
        if known and all(row["within_slo_probability"] < 0.5 for row in known):
            said.append(f"None of them is likely to have a mean time of at most {slo_ms:g} ms.")
        if known:
            said.append(
                "within_slo_probability is of the mean time: single requests take more and less than it."
            )
    said += [*_versions(ranked), *(f"{_named(row)}: {old}" for row in ranked if (old := age_in_words(row)))]
    said.append("Times of one request by itself: neither waiting nor a server's own work is in them.")
    return [*said, *found.get("costs_assume", ())]


def left_out(model: str, device: str, runtime: str, why: str) -> dict[str, Any]:
    """One of which there is no prediction at all."""
    return {"model": model, "device": device, "runtime": runtime, "coverage_ratio": None, "why": why}


_WHO = ("model", "shapes", "precision", "view", "device", "runtime", "threads", "batch_size")


def _who(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in _WHO}


def _named(row: Mapping[str, Any]) -> str:
    """As a sentence begins of one; what is known of it alone."""
    model = f"{row['model']} ({row['shapes']})" if row.get("shapes") else str(row["model"])
    device = f" on {row['device']}" if row["device"] else ""
    return f"{model}{device}" + (f" by {row['runtime']}" if row["runtime"] else "")


def _versions(ranked: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each runtime of which several versions are compared."""
    versions: dict[str, dict[str, list[str]]] = {}
    for row in ranked:
        of = versions.setdefault(runtime_name(row["runtime"]), {}).setdefault(row["runtime"], [])
        if row["device"] not in of:
            of.append(row["device"])
    return [
        f"They are of several versions of {name}, which differ in speed, too: "
        + "; ".join(f"{version} on {', '.join(devices)}" for version, devices in of.items())
        + "."
        for name, of in versions.items()
        if len(of) > 1
    ]


def _sum_alone(row: Mapping[str, Any]) -> str:
    return (
        f"its bricks take {row['predicted_ms']:.4g} ms ({percent(row['coverage_ratio'])} of it measured), which "
        "nothing calibrates there (three other models measured as a whole would): a sum is not ranked beside "
        "calibrated times"
    )


def _log(row: Mapping[str, Any]) -> tuple[float, float, int] | None:
    """The time's logarithm, its standard error, and the degrees of freedom that this has; None where the interval does
    not have all errors in it. Few models tell how far it is off, so that far from it more is possible than by a normal
    law."""
    if not row["calibrated_by"]:
        return None
    low, high = row["predicted_interval_ms"]
    if low <= 0:
        return None
    freedom = row["judged_by"] - 1
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom))
    return math.log(row["predicted_ms"]), math.log(high / low) / (2 * quantile), freedom


def _faster(one: Mapping[str, Any], other: Mapping[str, Any]) -> float | None:
    """Both errors are taken as independent, which is nearer to a half than they are."""
    a, b = _log(one), _log(other)
    if a is None or b is None:
        return None
    return _above(b[0] - a[0], math.hypot(a[1], b[1]), min(a[2], b[2]))


def _within(row: Mapping[str, Any], slo_ms: float) -> float | None:
    own = _log(row)
    return None if own is None else _above(math.log(slo_ms) - own[0], own[1], own[2])


def _above(apart: float, error: float, freedom: int) -> float:
    if error == 0:
        return 0.5 if apart == 0 else float(apart > 0)
    return float(stats.t.cdf(apart / error, freedom))
