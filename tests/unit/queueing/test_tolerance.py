"""When it is certain that a percentile is above its bound."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.queueing.server import Server
from inferbench_tasks.queueing.simulate import open_loop
from inferbench_tasks.queueing.tolerance import Tolerance

MS = 1e6


@pytest.mark.parametrize("percent", [50.0, 90.0, 99.0, 99.9])
@pytest.mark.parametrize("requests", [1, 2, 100, 101, 1000, 1234])
def test_it_is_exceeded_where_the_value_below_the_percentile_is_above_the_bound(
    percent: float, requests: int
) -> None:
    """Not with one request less; what was sent before the measurement does not count."""
    late = requests - int(np.floor((requests - 1) * percent / 100))
    one = Tolerance({percent: 5.0}, 100.0, requests)
    for _ in range(late - 1):
        one.count(100.0, 6.0)
    one.count(99.0, 6.0)
    assert not one.exceeded
    one.count(100.0, 6.0)
    assert one.exceeded
    latencies = np.sort([6.0] * late + [0.0] * (requests - late))
    assert np.percentile(latencies, percent) > 5.0


def test_a_load_ends_as_soon_as_it_is() -> None:
    """Twice as many as can be answered: p99 of 1,000 is above 20 ms with the tenth that is, long before the end. Of two
    bounds the one that is exceeded first ends it."""
    sent = np.arange(1000) * MS
    server = Server(lambda rows, rng: 2 * MS)
    for bounds in ({99.0: 20 * MS}, {50.0: 20 * MS, 99.0: 20 * MS}, {99.0: 20 * MS, 50.0: 1000 * MS}):
        tolerance = Tolerance(bounds, 0.0, len(sent))
        outcome = open_loop(server, sent, np.random.default_rng(1), tolerance=tolerance)
        assert tolerance.exceeded and 25 < len(outcome.sent_ns) < 40
        assert len(outcome.sent_ns) == len(outcome.answered_ns) == len(outcome.taken_ns)
    whole = open_loop(server, sent, np.random.default_rng(1), tolerance=Tolerance({99.0: 9e9}, 0.0, 1000))
    assert len(whole.sent_ns) == 1000
