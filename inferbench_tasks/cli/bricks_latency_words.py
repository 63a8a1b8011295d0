"""A predicted latency for people: a row of the table, and what must be known of it."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.bricks.constructors import SUM


def short(row: dict[str, Any]) -> dict[str, Any]:
    """The columns of the table."""
    shown = {name: row.get(name) for name in ("model", "bricks", "unique", "measured_now", "coverage_ratio")}
    shown |= {"predicted_ms": row["predicted_ms"], "95%": ""}
    if row["predicted_interval_ms"]:
        low, high = row["predicted_interval_ms"]
        shown["95%"] = f"{low:.4g} to {high:.4g}"
    if row.get("measured_ms"):
        shown |= {
            "measured_ms": row["measured_ms"],
            "over measured": row["predicted_ms"] / row["measured_ms"],
        }
    # Nothing is quiet of what was not timed.
    quiet = "yes" if row.get("measured_now") else "-"
    return shown | {"quiet": "no" if row.get("disturbed") else quiet}


def in_words(row: dict[str, Any]) -> str:
    """What a reader must know of the figure."""
    from inferbench_tasks.brick_jobs.ages import age_in_words

    text = f"{row['model']} on {row['device']}, {row['runtime']}: "
    if row.get("disturbed"):
        text += f"DISTURBED: {row['disturbed']}. The constructed time is "
    if row["predicted_ms"] is None:
        return text + (
            f"no prediction: {row['missing']} of {row['unique']} unique bricks have no time on {row['device']}."
        )
    if row["precision"] == "fp16":
        text += _half(row)
    if row.get("device_ms") is not None:
        text += _on_gpu(row)
    if row.get("interpolated"):
        text += _interpolated(row)
    elif row["missing"]:
        text += _most(row) + (
            f"{1 - row['coverage_ratio']:.1%} of it are estimated ({row['missing']} of {row['unique']} bricks; "
            f"families that were held back were {row['estimated_error_ratio']:.0%} off), which the interval has in it; "
        )
    if row["state"] != "warm":
        text += f"{row['state']} times are added up, which were nearer for other models of its size; "
    if row["calibrated_by"]:
        text += (
            f"calibrated by {', '.join(row['calibrated_by'])} ({_factors(row)}); the interval is of the rounds and of "
            f"how far {row['judged_by']} other models were off."
        )
    elif row["judged_by"]:
        text += (
            f"not calibrated: the interval is of the rounds and of how far the sums of {row['judged_by']} other models "
            "were off."
        )
    else:
        of = "and of what is not measured" if row["missing"] else "alone"
        text += (
            f"not calibrated: the interval is of the rounds {of}, and leaves out what cutting changes. With --whole, "
            "three other models calibrate it."
        )
    if old := age_in_words(row):
        text += f" {old}"
    if row.get("timed_on"):
        from inferbench_tasks.brick_jobs import origins

        hosts, which = " and ".join(row["timed_on"]), origins.in_words(row["origins"])
        text += f" Its times are of {hosts} ({which}): hosts of one processor differ in clocks and memory."
    return text


#: Of less of its time the GPU is busy where the host's launches bound a model.
_LAUNCHES_RATIO = 0.8


def _on_gpu(row: dict[str, Any]) -> str:
    bound = (
        ", the launches of kernels bound it" if row["device_ms"] < _LAUNCHES_RATIO * row["warm_ms"] else ""
    )
    return (
        f"the GPU itself is busy for {row['device_ms']:.4g} of its bricks' {row['warm_ms']:.4g} ms{bound}; "
    )


def _factors(row: dict[str, Any]) -> str:
    """With and without classes: which rule was nearer to those models, each by the others, is what is predicted."""
    one = f"one factor {row['factor']:.3f}: {row['calibrated_ms']:.4g} ms"
    if row["calibrated_by_class_ms"] is None:
        return one
    by_class = f"{row['calibrated_by_class_ms']:.4g} ms"
    if row["class_factors"] is None:
        return f"{one}, which was nearer to them than factors by class: {by_class}"
    factors = ", ".join(f"{name} {factor:.3f}" for name, factor in row["class_factors"].items())
    return f"factors {factors}: {by_class}, nearer to them than {one}"


def _half(row: dict[str, Any]) -> str:
    casts = sum(one["share_ratio"] for one in row["by_operators"] if one["operators"] == "Cast")
    of = "it" if _is_sum(row) else "the sum of all bricks"
    return (
        f"{casts:.1%} of {of} are casts: what ONNX Runtime's CPU has no half-precision operator for is computed in "
        "fp32, whatever the model says; "
    )


def _is_sum(row: dict[str, Any]) -> bool:
    return bool(row.get("constructor", SUM) == SUM)


def _most(row: dict[str, Any]) -> str:
    """Of a critical path the share of what is not measured is that where this takes as long as it may."""
    return "" if _is_sum(row) else "at most "


def _interpolated(row: dict[str, Any]) -> str:
    low, high = row["interpolated_between"]
    text = _most(row) + (
        f"{row['interpolated_ratio']:.1%} of it are interpolated between batch {low} and {high} ({row['interpolated']} "
        f"of {row['unique']} bricks; "
    )
    if row["interpolation_error_ratio"] is None:
        return (
            text
            + "the interval has in it what the two times allow: no three other models were measured between); "
        )
    return text + (
        f"{row['interpolation_judged_by']} other models that were measured between were "
        f"{row['interpolation_error_ratio']:.1%} off, which the interval has in it); "
    )
