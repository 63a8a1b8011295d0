"""Figures of the measured window from a recording."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.monitors import environment
from inferbench_tasks.monitors.records import Recording, Series
from inferbench_tasks.monitors.usage import MAX_POINTS, usage

SECOND = 1_000_000_000


def recording(**metrics: list[float]) -> Recording:
    """Samples of the server once a second from 0."""
    return Recording(
        {
            ("server", name): Series(np.arange(len(values)) * SECOND, np.array(values, float))
            for name, values in metrics.items()
        },
        {"unavailable": {"gpu": "no driver"}, "cpu_cores": 0.01, "problem": None},
    )


def test_cpu_comes_from_the_counter_between_the_windows_ends() -> None:
    """Mean cores = the counter's growth over the window's length, read between samples where it must be."""
    seen = recording(cpu_s_total=[0, 10, 10.5, 11, 11.5, 20], cpu_cores=[9, 9, 9, 9, 9, 9])
    found = usage(seen, int(1.5 * SECOND), int(3.5 * SECOND))
    assert found["server"]["cpu_cores"]["mean"] == pytest.approx(0.5)


def test_gauges_are_of_the_window_only() -> None:
    """Warm-up and cool-down don't count in a gauge's mean and maximum."""
    found = usage(recording(rss_bytes=[99, 1, 2, 3, 2, 2, 99]), SECOND, 5 * SECOND)
    mean = (1 / 2 + 2 + 3 + 2 + 2 / 2) / 4  # of the first and the last half a second is in the window
    assert found["server"]["rss_bytes"] == {"mean": mean, "max": 3.0, "last": 2.0, "samples": 5}


def test_a_gauge_of_a_part_of_the_window_is_not_that_of_the_window() -> None:
    """The sampler died after 2 of 9 s, or was held up for 3 of them: neither the mean nor the most is known."""
    nothing = {"mean": None, "max": None, "last": None}
    seen = usage(recording(rss_bytes=[5, 5, 5]), SECOND, 10 * SECOND)
    assert seen["server"]["rss_bytes"] == {**nothing, "samples": 2}
    gap = Series(np.array([0, 1, 2, 3, 6, 7, 8, 9, 10, 11]) * SECOND, np.full(10, 5.0))
    held_up = usage(Recording({("gpu", "power_w"): gap}, {}), SECOND, 10 * SECOND)
    assert held_up["gpu"]["power_w"] == {**nothing, "samples": 8}


def test_a_long_load_keeps_its_gauges_though_it_is_sampled_less_often() -> None:
    """36,000 samples a tenth of a second apart, then as many at each doubled step: 30 hours in steps of up to 1.6 s. A
    sampler that was away for two of them is still seen.
    """
    steps_s = np.repeat(0.1 * 2.0 ** np.arange(5), 36_000)
    t_ns = (np.cumsum(steps_s) * SECOND).astype(np.int64)
    end_ns = int(t_ns[-1])
    assert end_ns > 30 * 3600 * SECOND
    whole = Series(t_ns, np.full(len(t_ns), 5.0))
    assert whole.covers(0, end_ns)
    away = (t_ns > 20 * 3600 * SECOND) & (t_ns < 22 * 3600 * SECOND)
    assert not Series(t_ns[~away], whole.values[~away]).covers(0, end_ns)


def test_the_mean_of_a_gauge_is_over_the_time_however_often_it_was_sampled() -> None:
    """10 W for an hour and 100 W for another are 55 W, though the sampler reads half as often after an hour."""
    hour, often, seldom = 3600 * SECOND, SECOND // 10, SECOND // 5
    t_ns = np.concatenate([np.arange(often, hour + 1, often), np.arange(hour + seldom, 2 * hour + 1, seldom)])
    watts = Series(t_ns, np.where(t_ns <= hour, 10.0, 100.0))
    assert watts.within(0, 2 * hour).mean() == pytest.approx(40.0)
    found = usage(Recording({("gpu", "power_w"): watts}, {}), 0, 2 * hour)
    assert found["gpu"]["power_w"]["mean"] == pytest.approx(55.0, abs=0.01)


def test_a_counter_that_does_not_cover_the_window_is_none() -> None:
    """A sampler that died half-way gives no CPU figure instead of half of one."""
    found = usage(recording(cpu_s_total=[0, 1, 2]), SECOND, 10 * SECOND)
    assert found["server"]["cpu_s_total"] is None
    assert "cpu_cores" not in found["server"]


def test_the_cpu_of_a_part_of_the_window_is_not_that_of_the_window() -> None:
    """The sampler died after 2 of 9 s: the mean of what it saw stands for nothing, and no CPU per sample follows."""
    seen = usage(recording(cpu_s_total=[0, 1, 2], cpu_cores=[1, 1, 1]), SECOND, 10 * SECOND)
    assert seen["server"]["cpu_cores"]["mean"] is None


def test_a_counter_that_began_anew_has_no_increase() -> None:
    """A server that was started again counts from 0: neither the difference nor what is left of it is the window's."""
    series = Series(np.arange(6) * SECOND, np.array([100.0, 110, 120, 3, 13, 23]))
    assert series.increase(0, 5 * SECOND) is None
    assert series.increase(0, 2 * SECOND) == pytest.approx(20)


def test_a_short_window_is_not_scaled_up_from_a_tenth_of_it() -> None:
    """Two samples in the midst of a window of a second say nothing of the rest."""
    series = Series(np.array([450, 550]) * 1_000_000, np.array([0.0, 1.0]))
    assert series.increase(0, SECOND) is None


def test_an_empty_window_is_none_and_not_zero() -> None:
    """No sample in the window: nothing is made up."""
    found = usage(recording(rss_bytes=[5.0]), 3 * SECOND, 4 * SECOND)
    assert found["server"]["rss_bytes"]["mean"] is None


def test_a_long_course_is_bounded_and_keeps_its_mean() -> None:
    """However long a load was, a result keeps at most MAX_POINTS per series."""
    values = list(np.sin(np.arange(5000)) + 2)
    course = usage(recording(cpu_cores=values), 0, SECOND)["timeseries"]["server.cpu_cores"]
    assert len(course["value"]) <= MAX_POINTS
    assert np.mean(course["value"]) == pytest.approx(np.mean(values), rel=1e-3)


def test_what_could_not_be_watched_is_kept() -> None:
    """The reasons travel with the figures."""
    assert usage(recording(), 0, SECOND)["monitor"]["unavailable"] == {"gpu": "no driver"}


def test_the_environment_names_this_machine() -> None:
    """Hardware and system facts are there, and None where the machine does not tell."""
    hardware, system = environment.hardware(), environment.system()
    assert hardware["cpu"]
    assert hardware["cores_logical"] >= hardware["cores_usable"] >= 1
    assert hardware["memory_bytes"] > 2**28
    assert system["kernel"]
    assert environment.versions()["numpy"] == np.__version__
