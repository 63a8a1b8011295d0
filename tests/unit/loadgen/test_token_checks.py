"""What the certificate says of stamps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from inferbench_tasks.loadgen.evidence import ShardUsage
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.loadgen.token_checks import Stamps, cached_check, cut_by_window, stamp_checks
from inferbench_tasks.loadgen.token_records import CHUNKS, TableWriter


def chunks(path: Path, arrival_ns: list[int], waited_us: list[int], by: str = "kernel") -> Path:
    """A load's file of chunks."""
    with TableWriter(path, CHUNKS) as writer:
        zeros = np.zeros(len(arrival_ns), np.int32)
        writer.add(
            zeros.astype(np.int64), np.array(arrival_ns), zeros, zeros.astype(np.int8), np.array(waited_us)
        )
        writer.tell({"stamp": by})
    return path


def failed(stamps: Stamps, *, ttft_ms: float | None = None, step_ns: int | None = 0) -> dict[str, float]:
    """The checks that do not hold, and the value of each."""
    usage = ShardUsage(shard=0, cpu_s=1, wall_s=10, max_stall_ns=0, clock_step_ns=step_ns)
    checks = stamp_checks(stamps, [usage], Thresholds(), ttft_ms)
    return {check.name: check.value for check in checks if not check.ok}


def test_the_window_and_its_percentile(tmp_path: Path) -> None:
    """Of 1000 chunks within the window 11 waited for 9 ms: the p99 is theirs; what lies outside does not count."""
    moments = [*range(101, 1101), 100, 1101]
    waited = [9_000] * 11 + [20] * 989 + [60_000_000] * 2
    stamps = Stamps.of(chunks(tmp_path / "c", moments, waited), 100, 1100)
    assert stamps.figures() == {"stamp": "kernel", "stamp_delay_p99_ms": 9.0}
    assert failed(stamps) == {"stamp_delay_p99": 9.0}
    waited[0] = 20  # ten of a thousand lie beyond the p99
    assert failed(Stamps.of(chunks(tmp_path / "c", moments, waited), 100, 1100)) == {}


@pytest.mark.parametrize(("ttft_ms", "valid"), [(None, False), (100.0, False), (179.0, False), (180.0, True)])
def test_a_slow_objective_allows_more(ttft_ms: float | None, valid: bool) -> None:
    """9 ms are 5% of 180 ms."""
    stamps = Stamps("kernel", np.full(1000, 9_000))
    assert (failed(stamps, ttft_ms=ttft_ms) == {}) == valid


def test_few_chunks_have_no_p99_and_reads_no_delay() -> None:
    """A percentile needs its samples; a stamp that is the read's own moment waits for nothing."""
    assert Stamps("kernel", np.full(661, 9_000)).delay_p99_ms is None
    assert Stamps("kernel", np.full(662, 9_000)).delay_p99_ms == 9.0
    assert failed(Stamps("read", np.zeros(0, np.int64)), step_ns=10**9) == {}


@pytest.mark.parametrize(("step_ns", "valid"), [(None, True), (0, True), (100_000, True), (100_001, False)])
def test_a_set_clock_makes_kernels_stamps_worthless(step_ns: int | None, valid: bool) -> None:
    """By more than 0.1 ms, however good the delays look."""
    assert (failed(Stamps("kernel", np.full(5, 1)), step_ns=step_ns) == {}) == valid


@pytest.mark.parametrize(
    ("numbers", "rows", "cached", "turn_step", "found"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3], [129, 300, 128, -1], 0, 2),
        ([0, 1, 2, 3], [0, 1, 0, 1], [0, 5, 300, 300], 0, 0),  # sent again: their own cache
        ([0, 1, 100, 101], [0, 2, 1, 3], [0, 5, 300, 300], 100, 0),  # later turns: what was said before
        ([0, 1, 100, 101], [0, 2, 1, 3], [200, 500, 0, 0], 100, 2),
    ],
)
def test_no_first_prompt_is_in_a_cache(
    numbers: list[int], rows: list[int], cached: list[int], turn_step: int, found: int
) -> None:
    """Beyond what the load shares; one may have been asked before it, and what is not told is none."""
    records = pa.table({"request_id": numbers, "sample_index": pa.array(rows, pa.int32())})
    streams = {"request_id": np.array(numbers), "cached_tokens": np.array(cached)}
    check = cached_check(records, streams, 128, turn_step)
    assert (check.value, check.ok) == (found, found <= 1)


def test_streams_that_the_window_cuts() -> None:
    """The window is (100, 200]: of nine streams four lie across a bound; two outside and one that failed count for
    nothing, as does one without a token."""
    first = [101, 100, 150, 201, 50, 90, 200, 120, -1]
    last = [200, 150, 201, 300, 100, 250, 260, 130, -1]
    status = ["ok"] * 7 + ["stream_error", "ok"]
    records = pa.table({"request_id": np.arange(9), "status": pa.array(status).dictionary_encode()})
    streams = {
        "request_id": np.arange(9)[::-1],
        "first_token_ns": np.array(first)[::-1],
        "last_token_ns": np.array(last)[::-1],
    }
    assert cut_by_window(records, streams, 100, 200) == {"streams_in_window": 5, "streams_cut_by_window": 4}


def test_a_chunk_takes_twelve_bytes_at_most(tmp_path: Path) -> None:
    """Of 200 streams of 250 tokens, one each 20 ms with a jitter of 1 ms, whose reads waited 5 to 500 us."""
    rng = np.random.default_rng(5)
    with TableWriter(tmp_path / "c", CHUNKS) as writer:
        for number in range(200):
            gaps_ns = rng.normal(20e6, 1e6, 250).astype(np.int64)
            writer.add(
                np.full(250, number), 10**15 + number * 10**8 + np.cumsum(gaps_ns), rng.integers(1, 12, 250),
                np.ones(250, np.int8), rng.integers(5, 500, 250),
            )  # fmt: skip
    assert (tmp_path / "c").stat().st_size <= 12 * 200 * 250
