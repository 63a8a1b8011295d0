"""The client's ceiling: what a plan asks for at its worst moment, what is refused, and what is remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen import ceiling as module
from inferbench_tasks.loadgen.ceiling import (
    Ceiling,
    ceiling,
    check_ceiling,
    check_processing,
    peak_rate_rps,
    request_bytes,
)
from inferbench_tasks.loadgen.plan import LoadPlan
from tests.load_servers import endpoint, load_plan


def _plan(folder: Path, **arrivals: Any) -> LoadPlan:
    folder.mkdir(exist_ok=True)
    return load_plan(folder, endpoint("http", 1), arrivals=arrivals, duration_s=10.0, warmup_s=1.0)


def _ceiling(plan: LoadPlan, rate: float) -> Ceiling:
    return Ceiling(
        protocol="http", client="fast", shards=1, request_bytes=request_bytes(plan), answer_bytes=64,
        requests_per_s=rate, cpu_us_per_request=20.0, lateness_p50_us=50.0, lateness_p99_us=500.0,
        machine=module.machine(), measured_at=0.0,
    )  # fmt: skip


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[LoadPlan]:
    """Measuring gives 1,000 requests/s; every measurement is noted."""
    plans: list[LoadPlan] = []

    def measure(plan: LoadPlan, answer_bytes: int) -> Ceiling:
        plans.append(plan)
        return _ceiling(plan, 1000.0)

    monkeypatch.setattr(module, "measure_ceiling", measure)
    return plans


def test_the_peak_is_that_of_the_busiest_second(tmp_path: Path) -> None:
    """Not the mean: a spike counts with its height."""
    plan = _plan(tmp_path, kind="spike", base_rate_rps=10, spike_rate_rps=600, spike_at_s=4, spike_for_s=2)
    peak = peak_rate_rps(plan)
    assert peak is not None
    assert 500 < peak < 750


def test_no_rate_is_planned_where_users_or_the_server_set_it(tmp_path: Path) -> None:
    """Closed loop, and all at once."""
    assert peak_rate_rps(_plan(tmp_path, kind="closed_loop", concurrency=4)) is None
    assert peak_rate_rps(_plan(tmp_path, kind="offline", requests=1000)) is None


def test_a_load_above_the_safe_share_is_refused_with_both_numbers(
    tmp_path: Path, measured: list[LoadPlan]
) -> None:
    """Half of the ceiling; allow_unsafe_load lets it pass, and a load below passes by itself."""
    plan = _plan(tmp_path, kind="constant", rate_rps=700)
    with pytest.raises(InputError, match=r"700 requests/s are 70% .*1,000 requests/s"):
        check_ceiling(plan, 64, tmp_path / "cache", allow_unsafe=False)
    assert check_ceiling(plan, 64, tmp_path / "cache", allow_unsafe=True).requests_per_s == 1000
    calm = _plan(tmp_path, kind="constant", rate_rps=400)
    assert check_ceiling(calm, 64, tmp_path / "cache", allow_unsafe=False).requests_per_s == 1000


def test_processors_that_keep_the_sender_busy_are_refused_with_their_names(tmp_path: Path) -> None:
    """2 ms of decoding at 400/s are 80% of a sender; half the rate, a closed loop and the user's word let it pass."""
    plan, calm = (_plan(tmp_path / str(rate), kind="constant", rate_rps=rate) for rate in (400, 200))
    with pytest.raises(InputError, match=r"400 requests/s, .* 2\.00 ms with image, need 0\.80 of 1 sender"):
        check_processing(plan, {"image": 2.0}, allow_unsafe=False)
    check_processing(plan, {"image": 2.0}, allow_unsafe=True)
    check_processing(calm, {"image": 2.0}, allow_unsafe=False)
    users = _plan(tmp_path / "users", kind="closed_loop", concurrency=4)
    check_processing(users, {"image": 2.0}, allow_unsafe=False)


def test_a_ceiling_is_measured_once_for_payloads_of_a_size(tmp_path: Path, measured: list[LoadPlan]) -> None:
    """Remembered in a file; another answer's size, or ``fresh``, measures again; a broken file too."""
    plan = _plan(tmp_path, kind="constant", rate_rps=10)
    cache = tmp_path / "cache"
    ceiling(plan, 64, cache)
    ceiling(plan, 64, cache)
    assert len(measured) == 1
    ceiling(plan, 64_000, cache)
    assert len(measured) == 2
    ceiling(plan, 64, cache, fresh=True)
    assert len(measured) == 3
    for path in cache.glob("*.json"):
        path.write_text("{}")
    ceiling(plan, 64, cache)
    assert len(measured) == 4


def test_the_size_of_a_request_is_that_on_the_wire(tmp_path: Path) -> None:
    """Headers and tensors; more samples are more bytes."""
    one = _plan(tmp_path, kind="constant", rate_rps=10)
    many = one.model_copy(update={"batches": (one.batches[0].model_copy(update={"batch_size": 8}),)})
    assert request_bytes(many) - request_bytes(one) == pytest.approx(7 * 4 * 4, abs=8)
    assert request_bytes(one) > np.dtype(np.float32).itemsize * 4


def test_a_ceiling_belongs_to_the_cores_that_senders_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the whole host is none of a container with two of its 16; whoever has all keeps what was measured."""
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    monkeypatch.setattr(module, "usable_cores", lambda: 16)
    whole = module.machine()
    monkeypatch.setattr(module, "usable_cores", lambda: 2)
    assert ", 16 x " in whole and ", 2 of 16 x " in module.machine()
