"""The report's tables and words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.brick_jobs import coverage
from inferbench_tasks.brick_jobs.origins import in_words
from inferbench_tasks.brick_jobs.report.differing import differing
from inferbench_tasks.brick_jobs.result import BricksResult, PredictedModel, Times

#: Below this share of its time measured, a prediction says so first.
LEAST_COVERAGE = 0.9
#: Types of layers that are shown of each model.
_TYPES = 5


def each(results: Sequence[BricksResult]) -> Iterator[tuple[str, PredictedModel]]:
    """(label, prediction) of all models, in their order; the label has batch size, granularity and what their settings
    differ in where they do."""
    settings = differing(results)
    of_models = [(result, one) for result in results if result.role == "model" for one in result.predictions]
    several_batches = len({one.batch_size for _, one in of_models}) > 1
    several_granularities = len({one.granularity for _, one in of_models}) > 1
    for result, one in of_models:
        label = str(result.model.get("name"))
        if several_batches:
            label += f", batch {one.batch_size}"
        if several_granularities:
            label += f", G {one.granularity}"
        if setting := settings.get(result.run_id):
            label += f", {setting}"
        yield label, one


def calibration(one: PredictedModel) -> str:
    """How many other models calibrate it, whether by class, and which; without any what its interval is of."""
    if not one.calibrated_by:
        return (
            f"– (interval of {one.judged_by} others' errors)"
            if one.judged_by
            else "– (interval of the rounds alone)"
        )
    return f"{len(one.calibrated_by)}{' by class' if one.by_class else ''}: {', '.join(one.calibrated_by)}"


def models(results: Sequence[BricksResult]) -> list[dict[str, Any]]:
    """A line for each prediction, beside what was measured."""
    rows = [
        [
            label,
            number(one.bricks),
            number(one.unique),
            percent(one.coverage_ratio),
            number(one.warm_sum.ms, 4),
            number(one.streamed.ms, 4),
            one.state,
            number(one.best.ms, 4),
            interval(one.best),
            calibration(one),
            number(one.measured.ms, 4) if one.measured else "–",
            number(one.best.ms / one.measured.ms) if one.measured else "–",
            number(one.parallel.ms, 4),
        ]
        for label, one in each(results)
    ]
    head = [
        "model", "bricks", "unique", "of its time measured", "sum of warm bricks, ms", "of streamed ones, ms", "taken",
        "predicted, ms", "95% interval, ms", "calibrated by", "measured, ms", "predicted / measured", "parallel, ms",
    ]  # fmt: skip
    note = (
        "Predicted: the sum of the bricks' times, warm or with cold weights (streamed), whichever was nearer for other "
        "models of about its size (warm where these are fewer than three), times the factor of the other models where "
        "three or more calibrate it. Its interval is of the rounds, and of how far all other models of about its size "
        "(of any where these are fewer than three) that were measured as a whole are off; where there are not three it "
        "is of the rounds alone, and leaves out what cutting changes. Parallel: the critical path of the bricks."
    )
    return [_table("", head, rows, note)] if rows else []


def granularities(results: Sequence[BricksResult]) -> list[dict[str, Any]]:
    """A line for each batch size and granularity: errors over all models, and what was saved."""
    rows = []
    for row in of_granularity(results):
        # What is predicted, whichever rule calibrates it; the one factor's in results of before that was kept.
        plain, calibrated = row["plain"] or {}, row.get("predicted") or row["calibrated"] or {}
        rows.append(
            [
                f"{row['batch_size']}{', ' if row['setting'] else ''}{row['setting']}",
                row["granularity"],
                number(row["bricks"]),
                number(row["unique"]),
                percent(row["unique_ratio"]),
                str(row["judged"]),
                number(plain.get("geometric_mean")),
                percent(plain.get("mean_absolute_error_ratio")),
                number(calibrated.get("geometric_mean")),
                percent(calibrated.get("mean_absolute_error_ratio")),
                percent(calibrated.get("interval_ratio")),
                percent((row.get("calibrated_by_other_families") or {}).get("mean_absolute_error_ratio")),
                number(row["end_to_end_ms"], 4),
                number(row["unique_bricks_ms"], 4),
                number(row["speedup_ratio"]),
            ]
        )
    head = [
        "batch", "G", "bricks", "unique", "share", "models judged", "geometric mean", "mean absolute error",
        "geometric mean, calibrated", "mean absolute error, calibrated", "intervals that hold",
        "mean absolute error, calibrated by other families", "models, ms", "unique bricks, ms",
        "speed-up as the paper counts",
    ]  # fmt: skip
    note = (
        "Predicted over measured, each architecture once. Speed-up as the paper counts it: one run of each model, "
        "copies included, over one run of each unique brick."
    )
    return [_table("", head, rows, note)] if rows else []


def layers(results: Sequence[BricksResult]) -> list[dict[str, Any]]:
    """The types of bricks that take most of each model's time."""
    rows = [
        [label, str(of["operators"]), number(of["bricks"]), number(of["ms"]), percent(of["share_ratio"])]
        for label, one in each(results)
        for of in one.by_operators[:_TYPES]
    ]
    head = ["model", "layers", "bricks", "ms", "share"]
    return [_table("", head, rows, "")] if rows else []


def shards(results: Sequence[BricksResult]) -> list[dict[str, Any]]:
    """What was cut, and what each shard measured."""
    tables = []
    cuts = [result for result in results if result.role == "cut" and "todo" in result.counts]
    if cuts:
        rows = [
            [
                number(result.counts[name])
                for name in ("bricks", "unique", "reused", "todo", "wholes", "estimate_s")
            ]
            for result in cuts
        ]
        head = ["bricks", "different", "known before", "measured now", "of these whole models", "expected, s"]
        tables.append(
            _table("", head, rows, "Different: as they are measured, inputs that take another time apart.")
        )
    rows = [
        [
            result.run_id,
            number(result.counts.get("stored")),
            number(len(result.counts.get("failed", {}))),
            f"{result.counts.get('good_rounds', 0)} of {result.counts.get('rounds', 0)}",
            ", ".join(f"{level:.3f}" for level in result.counts.get("levels", [])),
            _stolen(result.counts),
            number(result.counts.get("seconds")),
            str(result.verdict),
        ]
        for result in results
        if result.role == "shard" and result.counts.get("stored") is not None and "rounds" in result.counts
    ]
    head = [
        "shard",
        "stored",
        "failed",
        "good rounds",
        "level of each",
        "hypervisor took",
        "session, s",
        "verdict",
    ]
    if rows:
        tables.append(
            _table(
                "Shards",
                head,
                rows,
                "Level: the references' times over those of the setting's first session. Hypervisor took: of the cores "
                "in the worst of these rounds; one that lost 5% or more is measured again.",
            )
        )
    return tables


def _stolen(counts: Mapping[str, Any]) -> str:
    """What the hypervisor took in the worst of the rounds that are used, and how many were measured again for it."""
    known = [ratio for ratio in counts.get("steal_ratios", ()) if ratio is not None]
    again = counts.get("stolen_rounds", 0)
    return (f"{max(known):.1%}" if known else "–") + (f"; too much in {again} rounds" if again else "")


def of_granularity(results: Sequence[BricksResult]) -> list[dict[str, Any]]:
    """The rows of ``summary`` of all points; ``setting``: what a point's differs in from others', or nothing."""
    settings = differing(results)
    return [
        {**row, "setting": settings.get(result.run_id, "")}
        for result in results
        if result.role == "cut"
        for row in result.counts.get("summary", ())
    ]


def words(results: Sequence[BricksResult]) -> list[str]:
    """What a reader is to know first."""
    said = []
    for label, one in each(results):
        if one.coverage_ratio < LEAST_COVERAGE:
            said.append(
                f"{label}: only {coverage.percent(one.coverage_ratio)} of its predicted {number(one.best.ms)} ms is "
                "measured; the rest is estimated."
            )
        if one.timed_on:
            which = f" ({in_words(one.origins)})" if one.origins else ""
            said.append(
                f"{label}: the times that it follows from are of {' and '.join(one.timed_on)}{which}: hosts of one "
                "processor differ in clocks and memory."
            )
    for row in of_granularity(results):
        where = f"Batch {row['batch_size']}, G {row['granularity']}{', ' if row['setting'] else ''}{row['setting']}"
        disturbed = row.get("disturbed") or 0
        if row["plain"] is None:
            if disturbed:
                said.append(
                    f"{where}: no prediction is judged, for {disturbed} model(s) were measured while the machine was "
                    "disturbed."
                )
            continue
        # Of results of before it was kept the one factor's, which most are predicted by.
        calibrated = row.get("predicted") or row["calibrated"]
        of = calibrated or row["plain"]
        text = (
            f"{where}: {of['models']} models predicted at {number(of['geometric_mean'])} of their measured time "
            f"(geometric mean), {percent(of['mean_absolute_error_ratio'])} off on average"
        )
        text += ", each calibrated by others." if calibrated else ", without calibration."
        if disturbed:
            text += f" {disturbed} that were measured while the machine was disturbed are left out."
        said.append(text)
    return said + [_device_time(of) for of in (one.counts.get("device_time") for one in results) if of]


def _device_time(of: Mapping[str, Any]) -> str:
    said = (
        f"In the device's time, loading, first runs and repeated rounds included, each copy of each model would take "
        f"{number(of['models_s'])} s; the bricks took "
    )
    alone = f"{number(of['bricks_s'])} s with the {of['calibrating']} models that calibrate"
    ratio = number(of["speedup_ratio"])
    if "used" not in of:  # of before it was counted
        return f"{said}{alone}: {ratio} times, without those that choose states and tell intervals."
    return (
        f"{said}{number(of['used_bricks_s'])} s with the {of['used']} whole models that predictions use (to calibrate, "
        f"to choose a state of the caches, to tell intervals): {number(of['used_speedup_ratio'])} times; {alone} "
        f"alone: {ratio} times."
    )


def interval(times: Times) -> str:
    """Its two ends."""
    return f"{number(times.low_ms, 4)} to {number(times.high_ms, 4)}"


def percent(ratio: float | None) -> str:
    """A share."""
    return "–" if ratio is None else f"{100 * ratio:.1f}%"


def _table(title: str, head: list[str], rows: list[list[str]], note: str) -> dict[str, Any]:
    return {"title": title, "head": head, "rows": rows, "numbers": list(range(1, len(head))), "note": note}
