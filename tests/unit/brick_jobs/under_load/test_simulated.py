"""What is seen of a simulated load: of its measurement, and of nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.brick_jobs.under_load.simulated import Seen, simulated
from inferbench_tasks.queueing.server import Server
from inferbench_tasks.submission.schema import LoadSpec

MS = 1e6


def seen(server: Server, arrivals: dict[str, Any], **load: Any) -> Seen:
    spec = LoadSpec.model_validate({"arrivals": arrivals, "warmup_s": 1, **load})
    return simulated(server, spec, spec.arrivals, np.random.default_rng(1))


def test_a_load_of_so_many_requests_ends_with_them() -> None:
    """200 of 100 per second last 2 of the 60 s: 100 answers per second, busy a tenth of the time."""
    found = seen(
        Server(lambda rows, rng: MS), {"kind": "poisson", "rate_rps": 100}, duration_s=60, max_requests=200
    )
    assert len(found.latencies_ms) == 200
    assert found.throughput_rps == pytest.approx(100, rel=0.2)
    assert found.utilisation_ratio == pytest.approx(found.throughput_rps / 1000, rel=0.02)


def test_users_stop_after_so_many_requests_too() -> None:
    """Four users of a server of 5 ms: 200 answers per second, of 50 requests as of all."""
    users = {"kind": "closed_loop", "concurrency": 4}
    found = seen(Server(lambda rows, rng: 5 * MS), users, duration_s=60, max_requests=50)
    assert len(found.latencies_ms) == 50 and found.throughput_rps == pytest.approx(200, rel=0.05)


def test_users_who_think_are_simulated_as_long_as_they_need_for_as_many_requests() -> None:
    """Two who think for 2 s send one request a second: of 600 s all, and not the 10 in which a busy server had done
    10,000. Every fiftieth takes 20 ms, so that p99 is 20 ms."""
    count = 0

    def service(rows: int, rng: np.random.Generator) -> float:
        nonlocal count
        count += 1
        return 20 * MS if count % 50 == 0 else MS

    users = {"kind": "closed_loop", "concurrency": 2, "think_time_ms": 2_000}
    found = seen(Server(service), users, duration_s=600)
    assert len(found.latencies_ms) == pytest.approx(600, abs=10) and found.throughput_rps == pytest.approx(
        1, rel=0.02
    )
    assert np.percentile(found.latencies_ms, 99) == pytest.approx(20, rel=0.1)


def test_what_the_warm_up_s_requests_meet_is_in_no_figure() -> None:
    """Requests of 1 ms: one per second for 16 s, then measured for 4 s with 500 per second in the mean: half busy."""
    ramp = {"kind": "ramp", "start_rate_rps": 1, "end_rate_rps": 999}
    found = seen(Server(lambda rows, rng: MS), ramp, duration_s=4, warmup_s=16)
    assert found.utilisation_ratio == pytest.approx(0.5, rel=0.05)


def test_refused_requests_count_where_they_were_sent() -> None:
    """Regular ones of half the service time to a queue of one place: half of those of the measurement are refused."""
    server = Server(lambda rows, rng: 10 * MS, max_waiting=1)
    found = seen(server, {"kind": "constant", "rate_rps": 200}, duration_s=2, warmup_s=8)
    assert found.error_ratio == pytest.approx(0.5, abs=0.01)
    assert found.throughput_rps == pytest.approx(100, rel=0.01)
