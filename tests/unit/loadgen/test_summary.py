"""The figures of a load: only the window counts, errors stay out of the latencies, nothing is made up."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.summary import summarise
from inferbench_tasks.submission.slo import SloSpec
from tests.samples import samples_table

S, MS, US = 1_000_000_000, 1_000_000, 1_000


def _summary(
    columns: dict[str, Any], start_s: float = 0, end_s: float = 10, slo: SloSpec | None = None
) -> Any:
    return summarise(
        samples_table(columns), measure_start_ns=int(start_s * S), measure_end_ns=int(end_s * S), slo=slo
    )


def _steady(latency_ms: float = 20, lateness_us: float = 0) -> dict[str, Any]:
    """100 requests per second for 14 s: 2 s of warm-up, 10 s of measurement, 2 s of cool-down."""
    intended = np.arange(-2 * S, 12 * S, 10 * MS)
    sent_ns = intended + int(lateness_us * US)
    phase = np.where(intended < 0, "warmup", np.where(intended < 10 * S, "measure", "cooldown"))
    done_ns = intended + int(latency_ms * MS)
    return {
        "intended_ns": intended + 100 * S, "sent_ns": sent_ns + 100 * S, "done_ns": done_ns + 100 * S,
        "phase": phase.tolist(),
    }  # fmt: skip


def test_latency_counts_from_the_intended_moment_and_from_the_send() -> None:
    """A lateness of 1.5 ms is in the first, not in the second, and stated by itself."""
    summary = _summary(_steady(20, 1500), 100, 110)
    assert summary["e2e_latency_ms"]["p50"] == 20.0
    assert summary["send_latency_ms"]["p50"] == 18.5
    assert summary["lateness_us"]["p99"] == 1500.0
    assert summary["e2e_latency_ms"]["mean"] == pytest.approx(20.0)
    assert summary["e2e_latency_ms"]["p99"] == 20.0
    assert summary["e2e_latency_ms"]["p999"] is None


def test_what_the_requests_are_worth_to_the_share_of_failures_is_stored() -> None:
    """Without a failure all 1,000. Of 20 that failed in a row nobody can tell that they were no one event: 50."""
    columns = _steady()
    assert _summary(columns, 100, 110)["worth"] == {"error_ratio": {"requests": 1000.0, "reason": None}}
    within = (columns["intended_ns"] - 100 * S) // (10 * MS)
    status = np.where((within >= 400) & (within < 420), "timeout", "ok")
    summary = _summary(columns | {"status": status.tolist()}, 100, 110)
    assert summary["error_ratio"] == 0.02
    assert summary["worth"]["error_ratio"]["requests"] == pytest.approx(50.0)
    assert "few episodes" in summary["worth"]["error_ratio"]["reason"]


def test_only_the_window_counts() -> None:
    """Warm-up and cool-down are in the time series and in ``cold_start``, in no figure of the window."""
    columns = _steady()
    columns["done_ns"] = columns["done_ns"] + np.where(columns["intended_ns"] < 100 * S, 500 * MS, 0)
    summary = _summary(columns, 100, 110)
    assert summary["requests"] == summary["ok"] == 1000
    assert summary["e2e_latency_ms"]["max"] == 20.0
    assert summary["offered_rps"] == 100.0
    assert summary["excluded"] == {"warmup": 200, "cooldown": 200}
    assert summary["cold_start"]["requests"] == 200
    assert summary["cold_start"]["first_latency_ms"] == 520.0
    assert summary["cold_start"]["first_to_steady_ratio"] == pytest.approx(26.0)
    assert summary["cold_start"]["duration_s"] == 2.0
    assert summary["timeseries"]["t_s"] == list(range(-2, 13))


def test_failed_requests_are_counted_by_kind_and_kept_out_of_the_latencies() -> None:
    """A fast refusal must not flatter the mean, a timeout not spoil it."""
    columns = _steady()
    status = np.full(len(columns["intended_ns"]), "ok", dtype=object)
    status[300:350], status[400:410] = "connection", "timeout"
    columns["status"] = status.tolist()
    columns["done_ns"] = np.where(status == "connection", columns["sent_ns"] + 1, columns["done_ns"])
    columns["done_ns"] = np.where(status == "timeout", columns["sent_ns"] + 9 * S, columns["done_ns"])
    summary = _summary(columns, 100, 110)
    assert summary["errors"] == {"connection": 50, "timeout": 10}
    assert summary["error_ratio"] == 0.06
    assert summary["ok"] == summary["e2e_latency_ms"]["count"] == 940
    assert (summary["e2e_latency_ms"]["min"], summary["e2e_latency_ms"]["max"]) == (20.0, 20.0)


def test_a_mean_that_timeouts_would_change_is_withheld_with_the_reason() -> None:
    """0.9% of the requests wait 10 s for nothing: a mean of 20 ms would rank before a server that answers all in 40."""
    columns = _steady()
    status = np.full(len(columns["intended_ns"]), "ok", dtype=object)
    status[300:309] = "timeout"
    columns["status"] = status.tolist()
    columns["done_ns"] = np.where(status == "timeout", columns["sent_ns"] + 10 * S, columns["done_ns"])
    stats = _summary(columns, 100, 110)["e2e_latency_ms"]
    assert stats["mean"] is None and stats["ci95"]["mean"] is None
    assert "the mean would be at least 109.8 ms, and of the others it is 20 ms" in stats["withheld"]["mean"]
    assert stats["p50"] == 20.0


def test_a_mean_that_quick_refusals_hardly_change_stands() -> None:
    """One of a thousand is refused at once: whatever it would have taken is not known, and it is one of a thousand."""
    columns = _steady()
    status = np.full(len(columns["intended_ns"]), "ok", dtype=object)
    status[300] = "connection"
    columns["status"] = status.tolist()
    assert _summary(columns, 100, 110)["e2e_latency_ms"]["mean"] == pytest.approx(20.0)


def test_the_p99_of_a_second_knows_the_failures_of_that_second() -> None:
    """Where 5 of 1,000 requests of a second failed, the p99 of the others is not that second's; the next has one."""
    intended = np.arange(0, 2 * S, MS)
    status = np.full(len(intended), "ok", dtype=object)
    status[10:15] = "timeout"
    columns = {"intended_ns": intended, "done_ns": intended + 2 * MS, "status": status.tolist()}
    series = _summary(columns, 0, 2)["timeseries"]
    assert series["p99_ms"][:2] == [None, 2.0]
    assert series["p50_ms"][:2] == [2.0, 2.0]


def test_throughput_counts_answers_that_arrived_in_the_window() -> None:
    """A server at half the offered rate has half the throughput, though it answers everything in the end."""
    intended = np.arange(0, 10 * S, 10 * MS)
    done_ns = (np.arange(1000) + 1) * 20 * MS
    summary = _summary({"intended_ns": intended, "done_ns": done_ns})
    assert summary["ok"] == 1000
    assert summary["offered_rps"] == 100.0
    assert summary["throughput_rps"] == 50.0
    assert summary["in_flight_mean"] == pytest.approx(250, rel=0.01)


def test_the_work_of_requests_from_the_warmup_is_the_servers_work() -> None:
    """What a saturated server finishes in the window counts, whoever asked for it; a batch counts as its samples."""
    intended = np.arange(-S, 9 * S, 10 * MS)
    columns = {
        "intended_ns": intended, "done_ns": intended + S, "batch_size": np.full(1000, 4),
        "phase": np.where(intended < 0, "warmup", "measure").tolist(),
    }  # fmt: skip
    summary = _summary(columns)
    assert summary["throughput_rps"] == pytest.approx(100.0, abs=0.2)
    assert summary["throughput_samples_per_s"] == pytest.approx(400.0, abs=0.8)


def test_the_last_answer_of_a_batch_job_counts() -> None:
    """Offline: the window ends with the last answer, which belongs to it."""
    summary = _summary({"intended_ns": np.zeros(10, int), "done_ns": np.arange(1, 11) * S})
    assert summary["throughput_rps"] == 1.0


def test_goodput_and_objective() -> None:
    """Goodput counts answers within the bound of the highest percentile; each part of the SLO is judged."""
    columns = _steady()
    late = np.arange(len(columns["intended_ns"])) % 10 == 0
    columns["done_ns"] = columns["done_ns"] + np.where(late, 50 * MS, 0)
    slo = SloSpec.model_validate({"p50_ms": 30.0, "p99_ms": 60.0, "throughput_rps": 90.0})
    summary = _summary(columns, 100, 110, slo)
    assert summary["goodput_rps"] == pytest.approx(90.0, abs=0.3)
    assert summary["goodput_limit_ms"] == 60.0
    assert summary["slo"]["met"] is False
    assert {k: c["met"] for k, c in summary["slo"]["checks"].items()} == {
        "p50_ms": True, "p99_ms": False, "throughput_rps": True, "error_ratio": True,
    }  # fmt: skip
    check = summary["slo"]["checks"]["p99_ms"]
    assert (check["value"], check["bound"], check["met"]) == (70.0, 60.0, False)
    assert (check["over"], check["requests"], check["needed_requests"]) == (100, 1000, None)


def test_an_objective_without_enough_samples_is_neither_met_nor_missed() -> None:
    """p99.9 of a thousand requests is unknown, and unknown is not "met"; without an SLO there is no goodput."""
    summary = _summary(_steady(), 100, 110, SloSpec.model_validate({"p999_ms": 100.0}))
    assert summary["slo"]["met"] is None
    assert summary["slo"]["checks"]["p999_ms"]["value"] is None
    plain = _summary(_steady(), 100, 110)
    assert (plain["goodput_rps"], plain["goodput_limit_ms"], plain["slo"]) == (None, None, None)


def test_the_time_series_accounts_for_every_request() -> None:
    """Requests by intended second, answers by the second of the answer, errors apart, and what is in flight."""
    intended = np.arange(0, 4 * S, 10 * MS)
    status = ["ok" if i % 100 else "timeout" for i in range(400)]
    columns = {"intended_ns": intended, "done_ns": intended + 1500 * MS, "status": status}
    series = _summary(columns, 0, 4)["timeseries"]
    assert series["t_s"] == [0, 1, 2, 3, 4, 5]
    assert series["requests"] == [100, 100, 100, 100, 0, 0]
    assert series["ok"] == [0, 49, 99, 99, 99, 50]
    assert series["errors"] == [0, 1, 1, 1, 1, 0]
    assert series["p50_ms"] == [1500.0] * 4 + [None] * 2
    assert series["p99_ms"] == [None] * 6
    assert series["max_ms"] == [1500.0] * 4 + [None] * 2
    assert series["in_flight"] == [100, 150, 150, 150, 50, 0]


def test_server_spans_become_stages_and_the_rest_is_transmission() -> None:
    """ms, over the requests of which the server told all."""
    intended = np.arange(20) * 100 * MS
    spans = {f"server_{n}_ns": np.full(20, v * MS) for n, v in
             {"queue": 2, "inference": 5, "preprocess": 1, "postprocess": 1}.items()}  # fmt: skip
    spans["server_queue_ns"][0] = -1
    stages_ms = _summary({"intended_ns": intended, "done_ns": intended + 12 * MS, **spans}, 0, 2)["stages_ms"]
    assert {name: stage["mean"] for name, stage in stages_ms.items()} == {
        "preprocess": 1.0, "transmit": 3.0, "queue": 2.0, "inference": 5.0, "postprocess": 1.0,
    }  # fmt: skip
    assert stages_ms["inference"]["p50"] == 5.0
    assert _summary({"intended_ns": intended}, 0, 2)["stages_ms"] == {}


def test_nothing_measured_gives_none_not_zero_latency() -> None:
    """No request, only dropped ones, or an impossible window."""
    empty = _summary({"intended_ns": np.empty(0, int)})
    assert (empty["requests"], empty["throughput_rps"], empty["error_ratio"]) == (0, 0.0, None)
    assert empty["e2e_latency_ms"]["mean"] is None
    assert empty["timeseries"]["t_s"] == []
    dropped = _summary({"intended_ns": [5], "sent_ns": [-1], "done_ns": [-1], "status": ["dropped"]})
    assert dropped["errors"] == {"dropped": 1}
    assert dropped["lateness_us"]["count"] == 0
    with pytest.raises(InputError, match="window is empty"):
        _summary({"intended_ns": [5]}, 3, 3)


def test_a_summary_is_plain_json_and_the_same_each_time() -> None:
    """Derived again from the same records, in whatever order they lie, it is the same document."""
    rng = np.random.default_rng(1)
    columns = _steady()
    columns["done_ns"] = columns["intended_ns"] + rng.gamma(2, 10 * MS, 1400).astype(int)
    table = samples_table({**columns, "request_id": np.arange(1400)})
    first = summarise(
        table, measure_start_ns=100 * S, measure_end_ns=110 * S, slo=SloSpec.model_validate({"p99_ms": 50.0})
    )
    shuffled = pa.concat_tables([table.slice(900), table.slice(0, 900)])
    again = summarise(
        shuffled,
        measure_start_ns=100 * S,
        measure_end_ns=110 * S,
        slo=SloSpec.model_validate({"p99_ms": 50.0}),
    )
    assert json.loads(json.dumps(first, allow_nan=False)) == again


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 12 * S), st.integers(0, S), st.integers(0, 3 * S), st.sampled_from(["ok", "reset"])
        ),
        max_size=60,
    )
)
def test_every_request_is_somewhere(rows: list[tuple[int, int, int, str]]) -> None:
    """Good and failed requests add up, in the window and over the seconds; the extremes bound the mean."""
    intended = np.array([r[0] for r in rows], int)
    sent_ns = intended + np.array([r[1] for r in rows], int)
    columns = {
        "intended_ns": intended, "sent_ns": sent_ns, "done_ns": sent_ns + np.array([r[2] for r in rows], int),
        "status": [r[3] for r in rows], "phase": ["measure" if r[0] < 10 * S else "cooldown" for r in rows],
    }  # fmt: skip
    summary = _summary(columns)
    assert summary["ok"] + sum(summary["errors"].values()) == summary["requests"]
    assert summary["requests"] + summary["excluded"].get("cooldown", 0) == len(rows)
    series = summary["timeseries"]
    assert sum(series["requests"]) == sum(series["ok"]) + sum(series["errors"]) == len(rows)
    stats = summary["e2e_latency_ms"]
    if stats["count"]:
        if stats["mean"] is None:
            assert summary["errors"] and "mean" in stats["withheld"]
        else:
            assert stats["min"] - 1e-9 <= stats["mean"] <= stats["max"] + 1e-9
        assert summary["send_latency_ms"]["max"] <= stats["max"]


def test_a_percentile_that_failures_may_belong_to_is_null_with_the_reason() -> None:
    """15.12: With 0.9% of timeouts there is no p99.9 and no p99, whose interval goes too; the p90 stays."""
    intended = np.linspace(0, 10 * S, 10_000, endpoint=False).astype(np.int64)
    status = np.where(np.arange(10_000) % 111 == 5, "timeout", "ok").tolist()
    columns = {"intended_ns": intended, "done_ns": intended + MS, "status": status}
    stats = _summary(columns, 0, 10)["e2e_latency_ms"]
    assert stats["p999"] is None and stats["p99"] is None and stats["p95"] is None
    assert stats["ci95"]["p99"] is None
    assert stats["p90"] == 1.0
    assert set(stats["withheld"]) == {"p95", "p99", "p999"}
    assert "0.910% of the requests failed" in stats["withheld"]["p999"]


def test_few_enough_failures_leave_a_percentile() -> None:
    """15.12: A tenth of the tail may fail: 10 of 10,000 requests leave the p99 and take the p99.9."""
    intended = np.linspace(0, 10 * S, 10_000, endpoint=False).astype(np.int64)
    status = np.where(np.arange(10_000) % 1000 == 5, "timeout", "ok").tolist()
    columns = {"intended_ns": intended, "done_ns": intended + MS, "status": status}
    stats = _summary(columns, 0, 10)["e2e_latency_ms"]
    assert stats["p99"] == 1.0 and stats["p999"] is None
    del columns["status"]
    assert "withheld" not in _summary(columns, 0, 10)["e2e_latency_ms"]
