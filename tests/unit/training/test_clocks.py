"""Clocks of epochs beside each other, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.monitors.records import Recording, Series
from inferbench_tasks.training.clocks import CPU, GPU, look

S = 1_000_000_000
WINDOWS = [(0, 4 * S), (5 * S, 9 * S)]
KNOWN = {"governor": "performance"}


def recording(**series: Any) -> Recording:
    """A value for each of ten seconds, by ``source__metric``."""
    return Recording(
        {
            (name.partition("__")[0], name.partition("__")[2]): Series(
                np.arange(10) * S, np.asarray(values, dtype=np.float64)
            )
            for name, values in series.items()
        },
        {},
    )


def said(
    seen: Recording, kind: str = "cpu", hardware: dict[str, Any] = KNOWN
) -> list[tuple[str, float, bool]]:
    found, _ = look(seen, WINDOWS, kind, hardware)
    return [(one["kind"], round(one["value"], 3), one["quarantine"]) for one in found]


def test_epochs_at_different_clocks_are_no_repetitions() -> None:
    """3,000 MHz and 2,250 are 25% lower, which is disturbed; 2,600 are 13%, a warning; 2,900 are nothing."""
    for second, expected in (
        (2250, [("host_clock", 0.25, True)]),
        (2600, [("host_clock", 0.133, False)]),
        (2900, []),
    ):
        assert said(recording(host__frequency_mhz=[3000] * 5 + [second] * 5)) == expected


def test_a_gauge_that_scatters_within_the_epochs_is_no_change_between_them() -> None:
    """Both epochs have the same mean."""
    assert said(recording(host__frequency_mhz=[2000, 3000, 2000, 3000, 2500] * 2)) == []


def test_an_idle_cores_clock_says_nothing() -> None:
    """Core 1 sleeps at 800 MHz in one epoch and at 3,000 in the other; the work is on core 0, at 3,000 throughout."""
    seen = recording(
        host__frequency_mhz=[1900] * 5 + [3000] * 5,
        host__core0_frequency_mhz=[3000] * 10,
        host__core1_frequency_mhz=[800] * 5 + [3000] * 5,
        host__core0_busy_s_total=np.arange(10),
        host__core1_busy_s_total=np.zeros(10),
    )
    assert said(seen) == []


def test_a_nominal_clock_was_not_watched() -> None:
    """A virtual machine that tells one number for ever, and one that tells none."""
    for seen in (recording(host__frequency_mhz=[2100] * 10), recording()):
        assert look(seen, WINDOWS, "cpu", {}) == ([], [CPU])
    assert look(recording(host__frequency_mhz=[2100] * 10), WINDOWS, "cpu", KNOWN) == ([], [])


def test_a_gpu_that_is_held_back_is_named() -> None:
    """Thermal slow-down in one sample within an epoch; between epochs, and the usual power cap, decide nothing."""
    clock = {"gpu__sm_clock_mhz": [1400] * 10}
    assert said(recording(gpu__held_back=[0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0], **clock), "gpu") == [
        ("gpu_throttling", 1.0, True)
    ]
    between = [(0, 1 * S), (5 * S, 9 * S)]
    quiet, _ = look(
        recording(gpu__held_back=[0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0], **clock), between, "gpu", KNOWN
    )
    assert quiet == []
    assert said(recording(gpu__held_back=[4] * 10, **clock), "gpu") == [("gpu_throttling", 1.0, False)]


def test_a_gpu_whose_clock_fell_is_named() -> None:
    """1,400 MHz and 1,050: 25% lower."""
    assert said(recording(gpu__sm_clock_mhz=[1400] * 5 + [1050] * 5), "gpu") == [("gpu_clock", 0.25, True)]


def migrating(core_0_at_work: Any) -> Recording:
    """One thread on two cores: at work a core has 3,000 MHz, idle 800; use ten times a second, clocks once."""
    tenths = np.asarray(core_0_at_work, dtype=bool)
    used = [np.concatenate([[0.0], np.cumsum(at_work * 0.1)]) for at_work in (tenths, ~tenths)]
    t_ns = np.arange(len(tenths) + 1) * S // 10
    moments = np.arange(5, len(tenths), 10)
    clocks = [np.where(at_work[moments], 3000.0, 800.0) for at_work in (tenths, ~tenths)]
    series = {("host", "frequency_mhz"): Series(t_ns[moments], np.full(len(moments), 1900.0))}
    for core in (0, 1):
        series["host", f"core{core}_frequency_mhz"] = Series(t_ns[moments], clocks[core])
        series["host", f"core{core}_busy_s_total"] = Series(t_ns, used[core])
    return Recording(series, {})


@pytest.mark.parametrize("epoch_s", [1.2, 4.5])
def test_a_thread_that_moves_between_cores_is_no_change_of_clock(epoch_s: float) -> None:
    """At a steady 3,000 MHz: one clock sample an epoch, and the core's that was left counts for nothing."""
    rng = np.random.default_rng(3)
    seen = migrating(np.repeat(rng.integers(0, 2, 90), 4))
    windows = [(round(k * epoch_s * S), round((k + 1) * epoch_s * S)) for k in range(int(36 / epoch_s))]
    assert look(seen, windows, "cpu", KNOWN) == ([], [])


def test_a_moving_threads_slower_clock_is_still_found() -> None:
    """3,000 MHz for 18 s and 2,000 then: a third lower."""
    seen = migrating(np.repeat(np.random.default_rng(3).integers(0, 2, 90), 4))
    for series in seen.series.values():
        if series.values[0] in (3000.0, 800.0):
            series.values[18:] = np.where(series.values[18:] == 3000, 2000, 800)
    windows = [(round(k * 1.2 * S), round((k + 1) * 1.2 * S)) for k in range(30)]
    ((found,), missing) = look(seen, windows, "cpu", KNOWN)
    assert found["quarantine"] and found["value"] == pytest.approx(1 / 3) and missing == []


@pytest.mark.parametrize(("kind", "what"), [("cpu", CPU), ("gpu", GPU)])
def test_epochs_too_short_for_the_gauge_were_not_watched(kind: str, what: str) -> None:
    """79 epochs of 80 ms, which are too few to be set beside each other; and eight of 4 s of which two have samples."""
    clock = {"host__frequency_mhz": [2000, 3000] * 5, "gpu__sm_clock_mhz": [700, 1400] * 5}
    short = [(k * S // 8, k * S // 8 + 80_000_000) for k in range(79)]
    assert look(recording(**clock), short, kind, KNOWN) == ([], [what])
    late = [(k * 5 * S, k * 5 * S + 4 * S) for k in range(8)]
    assert look(recording(**clock), late, kind, KNOWN) == ([], [what])


def test_of_several_gpus_the_first_alone_is_watched_and_that_is_said() -> None:
    """Nothing is known of the other three."""
    seen = recording(gpu__sm_clock_mhz=[1400] * 10)
    assert look(seen, WINDOWS, "gpu", KNOWN, 4) == ([], ["clocks and throttling of the other 3 GPU(s)"])
    assert look(seen, WINDOWS, "gpu", KNOWN, 1) == ([], [])
