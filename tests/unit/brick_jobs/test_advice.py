"""Advice: what is ranked, what is left out, and probabilities that are calculated by hand."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.brick_jobs.advice import advice, in_words
from inferbench_tasks.bricks.prediction import Estimate, calibrated, calibration_by

MEASURED_AT = datetime(2026, 11, 1, tzinfo=UTC)


def row(
    device: str, ms: float | None, half: float = 0.1, coverage: float | None = 1.0, by: int | None = 3
) -> dict[str, Any]:
    """``half``: of the interval, on the logarithm."""
    interval = None if ms is None else [ms * math.exp(-half), ms * math.exp(half)]
    return {
        "model": "m", "device": device, "runtime": "r", "threads": 1, "batch_size": 2, "coverage_ratio": coverage,
        "predicted_ms": ms, "predicted_interval_ms": interval, "calibrated_by": by and ["m"] * by, "judged_by": by or 0,
        "missing": 2, "unique": 5, "shapes": None, "precision": "fp32", "view": "runtime",
        "oldest_at": MEASURED_AT, "newest_at": MEASURED_AT, "old": 0,
    }  # fmt: skip


def test_the_top_three_with_the_probability_that_each_beats_the_next() -> None:
    """10 against 11 ms, each off by 0.1 (95%), by three models: log 1.1 = 0.0953 over root 2 x 0.1 / 4.303 = 0.0329 is
    2.900 standard errors, so 94.9% (Student's, 2 degrees of freedom). The third is compared with the fourth, which is
    not shown."""
    found = advice([row("b", 11.0), row("d", 40.0), row("a", 10.0), row("c", 20.0)])
    assert [(one["rank"], one["device"]) for one in found["ranked"]] == [(1, "a"), (2, "b"), (3, "c")]
    first, _, third = found["ranked"]
    assert first["faster_than_next_probability"] == pytest.approx(0.9494, abs=1e-3)
    assert third["faster_than_next_probability"] == pytest.approx(0.9989, abs=1e-3)
    assert (first["requests_per_s"], first["samples_per_s"]) == pytest.approx((100, 200))
    assert found["judged"] == 4
    assert first["within_slo_probability"] is None
    assert "The 3 fastest of 4." in in_words(found)
    assert not any("fastest of" in text for text in in_words(advice([row("b", 11.0), row("a", 10.0)])))


def test_the_slo_is_a_probability_too() -> None:
    """At its own latency a half; 10% above it log 1.1 / (0.1 / 4.303) = 4.101 standard errors: 97.3%."""
    assert advice([row("a", 10.0)], 10.0)["ranked"][0]["within_slo_probability"] == pytest.approx(0.5)
    found = advice([row("a", 10.0)], 11.0)
    assert found["ranked"][0]["within_slo_probability"] == pytest.approx(0.9727, abs=1e-3)
    assert not any("likely" in text for text in in_words(found))
    said = in_words(advice([row("a", 10.0)], 5.0))
    assert "None of them is likely to have a mean time of at most 5 ms." in said
    assert "within_slo_probability is of the mean time: single requests take more and less than it." in said


def test_who_tells_how_far_it_is_off_tells_how_sure_it_is() -> None:
    """The same interval of twenty models: log 1.1 / (0.1 / 2.093) = 1.995 standard errors, 97.0% by nineteen degrees of
    freedom, though three calibrate."""
    found = advice([row("a", 10.0) | {"judged_by": 20}], 11.0)
    assert found["ranked"][0]["within_slo_probability"] == pytest.approx(0.9697, abs=1e-3)


def test_what_is_not_measured_enough_is_never_ranked() -> None:
    """However fast it would be: mostly estimated, or without a figure; that comes first in the words."""
    found = advice([row("guess", 1.0, coverage=0.89), row("none", None, coverage=None), row("a", 10.0)])
    assert [one["device"] for one in found["ranked"]] == ["a"]
    assert [one["device"] for one in found["left_out"]] == ["guess", "none"]
    assert (
        in_words(found)[0] == "Left out: m on guess by r: only 89.0% of its time is measured, 90% are needed."
    )
    assert "2 of 5 unique bricks have no time there" in in_words(found)[1]
    assert "Nothing can be recommended: no prediction is measured enough." in in_words(
        advice([row("none", None, coverage=None)])
    )


def test_a_share_that_is_not_enough_never_looks_like_enough() -> None:
    """89.96% is left out as 89.9%: rounded to the nearest it would be the 90% that are needed."""
    [left] = advice([row("a", 10.0, coverage=0.8996)])["left_out"]
    assert left["why"] == "only 89.9% of its time is measured, 90% are needed"


def test_each_row_says_which_cut_of_the_model_it_is_of() -> None:
    """The sizes of its free inputs, its precision and the view that it was cut in, also of what is left out."""
    bert = {"shapes": "input_ids=128", "precision": "int8", "view": "portable"}
    found = advice([row("a", 10.0) | bert, row("b", None, coverage=None) | bert])
    for one in (*found["ranked"], *found["left_out"]):
        assert {name: one[name] for name in bert} == bert
    assert in_words(found)[0].startswith("Left out: m (input_ids=128) on b by r:")


def test_versions_of_a_runtime_that_differ_are_named() -> None:
    """A newer one may be faster by itself; of two runtimes each has one version, and nothing is said."""
    said = in_words(advice([row("a", 10.0) | {"runtime": "r 1"}, row("b", 11.0) | {"runtime": "r 2"}]))
    assert "They are of several versions of r, which differ in speed, too: r 1 on a; r 2 on b." in said
    said = in_words(advice([row("a", 10.0) | {"runtime": "r 1"}, row("b", 11.0) | {"runtime": "s 2"}]))
    assert not any("several versions" in text for text in said)


def test_old_times_are_said_to_be_old() -> None:
    """How many, and since when; the moments stand in the row. Of fresh ones nothing is said."""
    [one] = advice([row("a", 10.0) | {"old": 3}])["ranked"]
    assert (one["oldest_at"], one["newest_at"], one["old"]) == (MEASURED_AT, MEASURED_AT, 3)
    said = in_words(advice([row("a", 10.0) | {"old": 3}]))
    of = "m on a by r: 3 of its bricks' times are older than 30 days, the oldest of 2026-11-01"
    assert any(text.startswith(of) for text in said)
    assert not any("older than" in text for text in in_words(advice([row("a", 10.0)])))


def test_a_sum_of_bricks_is_not_ranked_beside_calibrated_times() -> None:
    """However fast it looks: 5 ms of bricks may be 20 ms of a model. It is left out, with its sum and the reason."""
    found = advice([row("sum", 5.0, by=None), row("a", 10.0), row("b", 30.0)], 10.0)
    assert [(one["rank"], one["device"]) for one in found["ranked"]] == [(1, "a"), (2, "b")]
    assert found["judged"] == 2 and found["ranked"][0]["faster_than_next_probability"] > 0.99
    [left] = found["left_out"]
    assert left["device"] == "sum" and left["coverage_ratio"] == 1.0
    assert "its bricks take 5 ms (100.0% of it measured), which nothing calibrates there" in left["why"]
    assert in_words(found)[0].startswith("Left out: m on sum by r: its bricks take 5 ms")
    assert not any("no probability" in text for text in in_words(found))


def test_sums_alone_are_ranked_without_a_probability_which_is_said() -> None:
    """Where nothing is calibrated all are alike; that their order is of sums stands in the words."""
    found = advice([row("b", 30.0, by=None), row("a", 10.0, by=None)], 10.0)
    assert [one["device"] for one in found["ranked"]] == ["a", "b"] and not found["left_out"]
    assert [one["faster_than_next_probability"] for one in found["ranked"]] == [None, None]
    assert [one["within_slo_probability"] for one in found["ranked"]] == [None, None]
    assert any("the order is that of the bricks' sums" in text for text in in_words(found))


def test_an_interval_that_reaches_zero_tells_no_probability() -> None:
    """Of such a prediction only the rank is said."""
    wide = row("a", 10.0) | {"predicted_interval_ms": [0.0, 30.0]}
    assert advice([wide, row("b", 20.0)], 15.0)["ranked"][0]["within_slo_probability"] is None


def test_probabilities_are_as_often_right_as_they_say() -> None:
    """Predictions that three models calibrate, each off by 8%: of what is said to be 60 to 80% sure 62 to 80% are so
    (86% by a normal law), and of what is 95% sure or more 9 of 10 at least."""
    rng = np.random.default_rng(4)
    said: list[tuple[float, bool]] = []
    for _ in range(1500):
        rows, truth = [], []
        for device in "ab":
            ms, off = 100 * float(np.exp(rng.normal(0, 0.2))), rng.normal(0.0, 0.08, 4)
            by = calibration_by([float(one) for one in off[:3]])
            assert by is not None
            found = calibrated(Estimate(ms, ms * 0.99, ms * 1.01), by)
            rows.append(row(device, found.ns) | {"predicted_interval_ms": [found.low_ns, found.high_ns]})
            truth.append(ms * math.exp(off[3]))
        first = advice(rows)["ranked"][0]
        right = (truth[0] < truth[1]) == (first["device"] == "a")
        said.append((first["faster_than_next_probability"], right))
    middle = [right for claimed, right in said if 0.6 <= claimed < 0.8]
    sure = [right for claimed, right in said if claimed >= 0.95]
    assert 0.62 <= sum(middle) / len(middle) <= 0.80 and sum(sure) / len(sure) >= 0.9
