"""Recordings of two hosts on one clock: what is placed where, what is true of each, and what is not told."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.monitors.records import Recording, Series, read_recording
from inferbench_tasks.monitors.two_hosts import (
    WAITS_ERROR_NS,
    Placed,
    misplaced_ns,
    on_near_clock,
    placed,
    without_server,
    write,
)
from inferbench_tasks.timing.two_clocks import Exchange, bounds_at

MS, S = 1_000_000, 1_000_000_000
AHEAD = 1000 * S


def exchanges(gains_ppm: float, every_ms: float, seconds: float, seed: int = 1) -> list[Exchange]:
    """Of a far clock that is 1,000 s ahead and gains; round trips of 0.2 ms and more."""
    rng, made = random.Random(seed), []

    def far(at_ns: int) -> int:
        return at_ns + AHEAD + round(at_ns * gains_ppm * 1e-6)

    for at_ms in np.arange(0, seconds * 1000, every_ms):
        sent = round(at_ms * MS)
        arrived = sent + round((0.1 + rng.expovariate(20)) * MS)
        made.append(
            Exchange(sent, far(arrived), far(arrived), arrived + round((0.1 + rng.expovariate(20)) * MS))
        )
    return made


@pytest.mark.parametrize("gains_ppm", [-50.0, 0.0, 300.0])
def test_the_true_offset_is_within_what_is_told_all_over_the_window(gains_ppm: float) -> None:
    """With an exchange each 250 ms the error is small, but for what the clock gains in the window."""
    place = placed(exchanges(gains_ppm, 250, 30), 5 * S, 25 * S)
    assert place is not None
    for at_ns in range(5 * S, 25 * S, S // 3):
        assert abs(AHEAD + at_ns * gains_ppm * 1e-6 - place.offset_ns) <= place.error_ns
    assert place.error_ns < MS + abs(gains_ppm) * 1e-6 * 10 * S


def test_an_offset_that_was_chosen_before_is_wrong_by_what_the_clock_gains_since() -> None:
    """As that of a start is: what is told bounds the truth, and is no less than for the offset of the middle."""
    asked = exchanges(100.0, 250, 30)
    chosen = AHEAD + round(5 * S * 100e-6)
    told = misplaced_ns(asked, chosen, 5 * S, 25 * S)
    place = placed(asked, 5 * S, 25 * S)
    assert told is not None and place is not None
    assert 2 * MS <= told < 3 * MS and told > place.error_ns  # 20 s of 100 ppm
    assert misplaced_ns(asked, place.offset_ns, 5 * S, 25 * S) == place.error_ns
    assert misplaced_ns([], chosen, 5 * S, 25 * S) is None


def test_with_exchanges_before_and_after_alone_the_error_grows_with_the_distance() -> None:
    """1,000 ppm of the way to the nearest: that is why there is one each 250 ms."""
    some = [e for e in exchanges(0, 250, 40) if e.sent_ns < 5 * S or e.sent_ns > 35 * S]
    place = placed(some, 5 * S, 35 * S)
    assert place is not None and 12 * MS < place.error_ns < 17 * MS


def test_the_error_is_largest_where_the_bounds_of_both_exchanges_meet() -> None:
    """One of no round trip at 0, one of 8 ms from 10 s on: by 1,000 ppm the first is wrong by t / 1000, the second by
    4 ms + (10.008 s - t) / 1000. They meet at 7.004 s with 7.004 ms, while halfway, at 5 s, it is 5 ms.
    """
    far = AHEAD + 10 * S + 4 * MS
    both = [Exchange(0, AHEAD, AHEAD, 0), Exchange(10 * S, far, far, 10 * S + 8 * MS)]
    place = placed(both, 0, 10 * S)
    assert place is not None and place.offset_ns == AHEAD
    assert place.error_ns == pytest.approx(7_004_000, abs=2)
    for at_ns in range(0, 10 * S, S // 100):
        one = bounds_at(both, at_ns)
        assert one is not None
        assert max(AHEAD - one.low_ns, one.high_ns - AHEAD) <= place.error_ns


def test_a_clock_that_was_set_has_no_place() -> None:
    """Nothing is put at the middle of what contradicts itself; nor where nobody asked."""
    some = exchanges(0, 250, 30)
    late = [
        Exchange(e.sent_ns, e.arrived_ns + 80 * MS, e.answered_ns + 80 * MS, e.received_ns) for e in some[60:]
    ]
    assert placed([*some[:60], *late], 5 * S, 25 * S) is None
    assert placed([], 0, S) is None


def recording(**series: Series) -> Recording:
    return Recording({tuple(name.split("__")): one for name, one in series.items()}, {"side": "server"})  # type: ignore[misc]


def test_what_was_recorded_far_away_lies_on_the_load_s_clock() -> None:
    """To the nanosecond by the offset; waits in steps of 40 ms only where the error is well below that."""
    far = Series(np.array([AHEAD + S, AHEAD + 2 * S]), np.array([1.0, 3.0]))
    both = recording(server__cpu_s_total=far, wait__server_longest_s=far)
    near = on_near_clock(both, Placed(AHEAD, WAITS_ERROR_NS))
    assert [s.t_ns.tolist() for s in near.series.values()] == [[S, 2 * S]] * 2
    assert list(on_near_clock(both, Placed(AHEAD, WAITS_ERROR_NS + 1)).series) == [("server", "cpu_s_total")]


def test_a_host_without_the_server_has_one_that_used_nothing() -> None:
    """Which is known, and no zero in place of what is not: without the load's own CPU time nothing is said."""
    used = Series(np.array([S, 2 * S]), np.array([0.0, 0.5]))
    found = without_server(recording(client__cpu_s_total=used))
    server = found.get("server", "cpu_s_total")
    assert server is not None and server.increase(S, 2 * S) == 0.0
    assert without_server(recording(host__cpu_ratio=used)).get("server", "cpu_s_total") is None


def test_a_recording_is_kept_as_any_other(tmp_path: Path) -> None:
    """Written and read back; also one with nothing in it."""
    one = Series(np.array([S, 2 * S]), np.array([0.0, 0.5]))
    for kept in (recording(client__cpu_s_total=one, host__cpu_ratio=one), Recording({}, {"problem": None})):
        write(kept, tmp_path / "monitors.parquet")
        again = read_recording(tmp_path / "monitors.parquet")
        assert again.about == kept.about and again.series.keys() == kept.series.keys()
        for name, series in again.series.items():
            assert (series.t_ns == kept.series[name].t_ns).all() and (
                series.values == kept.series[name].values
            ).all()
