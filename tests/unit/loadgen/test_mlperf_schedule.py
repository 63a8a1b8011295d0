"""LoadGen's runs are judged by the schedule that was asked for, its verdict, and the failures that it can't know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from inferbench_tasks.loadgen.certificate import Certificate, ShardUsage, certify
from inferbench_tasks.loadgen.evidence import ClosedPlan, OpenPlan
from inferbench_tasks.loadgen.layout import MEASURE
from inferbench_tasks.loadgen.merging import merge
from inferbench_tasks.loadgen.mlperf import MlperfVerdict
from inferbench_tasks.loadgen.mlperf_schedule import first_query_id, promise, reschedule, server_offsets_ns
from inferbench_tasks.loadgen.outcome import loadgen_checks
from inferbench_tasks.loadgen.plan import LoadPlan, MlperfSettings
from inferbench_tasks.loadgen.records import read_samples
from inferbench_tasks.loadgen.spool import Recorder
from tests.load_servers import endpoint, load_plan

S, MS = 1_000_000_000, 1_000_000
USAGE = ShardUsage(shard=0, cpu_s=0.5, wall_s=4.0, max_stall_ns=0, stalls_ns=(), stalled_ns=0)
RATE = 1000.0


def _plan(folder: Path, seconds: float = 4.0) -> LoadPlan:
    plan = load_plan(
        folder,
        endpoint("http", 1),
        arrivals={"kind": "server", "rate_rps": RATE},
        duration_s=seconds,
        warmup_s=0,
    )
    return plan.model_copy(update={"mlperf": MlperfSettings(scenario="server", rate_rps=RATE)})


def _judged(folder: Path, issued_ns: NDArray[np.int64]) -> tuple[Certificate, NDArray[np.int64]]:
    """Queries that LoadGen issued then, each answered within 5 ms, through the file of a sender."""
    plan = _plan(folder)
    path = folder / "shard.spool"
    with Recorder(path, 0, spans=False) as recorder:
        for number, at in enumerate(issued_ns.tolist()):
            row = (
                first_query_id(plan) + number,
                MEASURE,
                at,
                at + 20_000,
                at + 4 * MS,
                at + 5 * MS,
                0,
                9,
                9,
                0,
                1,
            )
            recorder.append(*row, None)
    schedule = reschedule(plan, [path])
    window = (int(schedule[0]), max(int(schedule[-1]) + 1, int(issued_ns[-1]) + 5 * MS))
    merge([path], folder / "samples.parquet", measure_window_ns=window)
    table = read_samples(folder / "samples.parquet")
    certificate = certify(
        table, promise(plan, schedule, *window), [USAGE], measure_start_ns=window[0], measure_end_ns=window[1]
    )
    return certificate, schedule


def _failed(certificate: Certificate) -> set[str]:
    return {check.name for check in certificate.checks if not check.ok}


def test_a_loadgen_that_keeps_its_schedule_is_valid(tmp_path: Path) -> None:
    """Issued at its moments or up to 0.2 ms after: the records get the schedule's moments as intended ones."""
    offsets = server_offsets_ns(RATE, _seed(), 4000)
    jitter = np.random.default_rng(1).integers(0, MS // 5, 4000)
    certificate, schedule = _judged(tmp_path, 50 * S + offsets + jitter)
    assert certificate.valid, certificate.reasons
    assert np.array_equal(np.diff(schedule[:4000]), np.diff(offsets))
    assert certificate.figures["lateness_p99_ms"] == pytest.approx(0.22, abs=0.02)


def test_a_loadgen_that_issues_too_slowly_is_invalid(tmp_path: Path) -> None:
    """15.9: 600/s of 1000/s asked, each sent as soon as it was issued: late by the schedule, and too few of it."""
    offsets = server_offsets_ns(RATE, _seed(), 2400)
    certificate, schedule = _judged(tmp_path, 50 * S + (offsets / 0.6).astype(np.int64))
    assert {"lateness_p50", "lateness_max", "unrecorded", "schedule"} <= _failed(certificate)
    assert len(schedule) >= 0.98 * 4000


def _seed() -> int:
    """LoadGen's seed of the schedule, of a load with the seed 1."""
    return 1 + 2


def test_the_schedule_is_a_poisson_process_of_the_asked_rate() -> None:
    """The first query at 0, exponential gaps, the same for the same seed and others for another."""
    offsets = server_offsets_ns(200.0, 7, 20_000)
    gaps = np.diff(offsets) / 1e9
    assert offsets[0] == 0 and (gaps >= 0).all()
    assert gaps.mean() == pytest.approx(1 / 200, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.03)
    assert np.array_equal(offsets[:100], server_offsets_ns(200.0, 7, 100))
    assert not np.array_equal(offsets[:100], server_offsets_ns(200.0, 8, 100))


def test_the_streams_and_offline_are_promised_as_what_they_are(tmp_path: Path) -> None:
    """A stream is one user whose query follows an answer; offline is so many requests at one moment."""
    plan = _plan(tmp_path)
    stream = plan.model_copy(update={"mlperf": MlperfSettings(scenario="single_stream")})
    promised = promise(stream, np.array([5 * S, 6 * S]), 5 * S, 7 * S)
    assert isinstance(promised, ClosedPlan)
    assert (promised.concurrency, promised.start_ns, promised.shards) == (1, 5 * S, 1)
    offline = plan.model_copy(update={"mlperf": MlperfSettings(scenario="offline", requests=3)})
    promised = promise(offline, np.full(3, 5 * S), 5 * S, 7 * S)
    assert isinstance(promised, OpenPlan) and not promised.paced and len(promised.intended_ns) == 3


def _verdict(*, valid: bool) -> MlperfVerdict:
    reasons = () if valid else ("Early stopping: not enough queries",)
    return MlperfVerdict(
        scenario="Server", valid=valid, reasons=reasons, queries=100, samples_per_query=1, summary={}, logs=()
    )


def test_loadgens_invalid_makes_the_run_invalid() -> None:
    """15.9: It was a warning: the reason says it in LoadGen's own words."""
    against = [check.against() for check in loadgen_checks(_verdict(valid=False), 100, 0) if not check.ok]
    assert [reason.check for reason in against] == ["loadgen_verdict"]
    assert against[0].text.endswith("INVALID: Early stopping: not enough queries")
    assert all(check.ok for check in loadgen_checks(_verdict(valid=True), 100, 0))


def test_failures_that_loadgen_counts_as_answers_make_the_run_invalid() -> None:
    """15.9: One is enough, though 1% may fail otherwise: LoadGen's own figures have it among the good ones."""
    against = [check.against() for check in loadgen_checks(_verdict(valid=True), 100, 1) if not check.ok]
    assert [reason.check for reason in against] == ["loadgen_failures"]
    assert against[0].text.startswith("1 of 100 requests failed, which LoadGen can't be told")
