"""What a server adds, as it is kept and used."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.brick_jobs.under_load.added import AWAKE_NS
from inferbench_tasks.brick_jobs.under_load.distribution import ENDS
from inferbench_tasks.brick_jobs.under_load.overhead import (
    Conditions,
    Overhead,
    asleep_of,
    bytes_of,
    point_of,
)
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.errors import InputError

CONDITIONS = Conditions(
    backend="onnxruntime", runtime="onnxruntime 1", inferbench="1", protocol="http", client="fast",
    processor="Some CPU", cores=2,
)  # fmt: skip


def overhead() -> Overhead:
    points = [
        point_of(size, np.full(200, ns + 150_000), np.full(200, 50_000), 10_000.0)
        for size, ns in ((8, 100_000), (1008, 300_000))
    ]
    return Overhead(conditions=CONDITIONS, points=tuple(points), runs=("r",))


def test_the_parts_add_up_to_what_one_user_waited() -> None:
    """250 us, of which the instance had 50 and the event loop, by 10,000 requests per second, 100."""
    added = overhead().at(8)
    assert (added.front_ns, added.batch_ns) == (100_000, 50_000)
    assert added.rest_ns.means == pytest.approx([100_000.0] * len(ENDS))


def test_the_runtime_s_call_is_in_the_model_s_time_already() -> None:
    """50 us of the instance, 4 of which are the call: 46 are added; what else one user waits is the same."""
    waits = np.full(200, 250_000), np.full(200, 50_000), 10_000.0
    with_call, without = point_of(8, *waits), point_of(8, *waits, call_ns=4_000.0)
    assert without.batch_ns == 46_000 and without.rest_ns == with_call.rest_ns
    assert point_of(8, *waits, call_ns=60_000.0).batch_ns == 0


def test_one_slow_request_of_ten_thousand_stays_one_of_ten_thousand() -> None:
    """200 us, and one of 50 ms: the mean is that of the requests, p99.9 is 200 us, and as many are slow."""
    latency, instance = np.full(10_000, 700_000), np.full(10_000, 300_000)
    latency[5000] += 50_000_000
    point = point_of(8, latency, instance, 5000.0)
    added = Overhead(
        conditions=CONDITIONS, points=(point, point.model_copy(update={"wire_bytes": 9})), runs=("r",)
    )
    rest, rng = added.at(8).rest_ns, np.random.default_rng(0)
    drawn = np.array([rest.draw(rng) for _ in range(500_000)])
    assert rest.mean == pytest.approx(205_000)
    assert drawn.mean() == pytest.approx(205_000, rel=0.01)
    assert np.percentile(drawn, 99.9) == pytest.approx(200_000)
    assert (drawn > 1e6).mean() == pytest.approx(1e-4, rel=0.3)


def test_between_two_sizes_and_beyond_the_larger_it_is_on_their_line() -> None:
    """Half way half of the difference; twice as far twice of it; never less than the smallest's."""
    assert overhead().at(508).rest_ns.mean == pytest.approx(200_000)
    assert overhead().at(2008).rest_ns.mean == pytest.approx(500_000)
    assert overhead().at(4).rest_ns.mean == pytest.approx(100_000)


def test_after_a_pause_more_is_added_and_beyond_the_longest_not_yet_more() -> None:
    """Instances take 50 us awake and 90 after 0.5 to 1 ms; half way in the logarithm of the pause half of the 40 more;
    of the way 100 us, and 300 after that pause."""
    paused = tuple(
        asleep_of(
            np.full(60, 700_000.0), np.full(60, 490_000), np.full(60, 90_000), 100_000.0, 0.0
        )
    )  # fmt: skip
    point = point_of(8, np.full(200, 250_000), np.full(200, 50_000), 10_000.0, asleep=paused)
    both = point, point.model_copy(update={"wire_bytes": 1008})
    added = Overhead(conditions=CONDITIONS, points=both, runs=("r",)).at(508)
    [pause] = added.asleep
    middle_ns, rng = (AWAKE_NS * pause.idle_ns) ** 0.5, np.random.default_rng(0)
    idle = (0.0, AWAKE_NS, middle_ns, pause.idle_ns, float("inf"))
    assert [added.batch_after(ns) for ns in idle] == pytest.approx([0, 0, 20_000, 40_000, 40_000])
    assert [added.rest(ns, rng) for ns in idle] == pytest.approx([1e5, 1e5, 2e5, 3e5, 3e5])


def test_pauses_that_were_hardly_seen_say_nothing() -> None:
    """49 of one length are too few."""
    idle, latency, instance = np.full(49, 700_000.0), np.full(49, 490_000), np.full(49, 90_000)
    assert not list(asleep_of(idle, latency, instance, 100_000.0, 0.0))


def test_far_beyond_nothing_is_said() -> None:
    """More than eight times the largest size is refused, with both."""
    with pytest.raises(InputError, match="9,000 bytes together; .* up to 1,008"):
        overhead().at(9000)


def test_bytes_are_of_all_rows_and_open_sizes_have_none() -> None:
    """Two rows of 3 x 4 floats and one integer each; an open size is refused by name."""
    tensors = [
        TensorSpec(name="x", dtype="float32", shape=(3, 4)),
        TensorSpec(name="i", dtype="int64", shape=()),
    ]
    assert bytes_of(tensors, 2, {}) == 2 * (48 + 8)
    with pytest.raises(InputError, match=r"ids has open sizes \[-1\]"):
        bytes_of([TensorSpec(name="ids", dtype="int64", shape=(-1,))], 1, {})
    assert bytes_of([TensorSpec(name="ids", dtype="int64", shape=(-1,))], 1, {"ids": (9,)}) == 72
