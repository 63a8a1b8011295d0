"""The band of a series' chart: what one session can't tell from no change."""

from __future__ import annotations

from inferbench_tasks.regression.report import chart


def test_the_band_is_as_wide_below_as_above_by_its_ratio() -> None:
    """A session finds twice as much, ln 2: below that is half as much, so the band goes from -50% to +100%, and a
    change of -60% lies outside of it. Without an effect that is known there is none.
    """
    series = {"points": [], "events": [], "unit": "ms", "minimum_detectable_effect_percent": 100.0}
    band = chart(series)["layout"]["shapes"][0]
    assert (band["y0"], band["y1"]) == (-50.0, 100.0)
    series["minimum_detectable_effect_percent"] = None
    band = chart(series)["layout"]["shapes"][0]
    assert (band["y0"], band["y1"]) == (0, 0)
