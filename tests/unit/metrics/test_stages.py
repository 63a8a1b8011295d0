"""The prober: the parts add up, and time is found where it was spent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.base import Measured
from inferbench_tasks.metrics.stages import PARTS, Stages, batch_samples, breakdown, per_request
from inferbench_tasks.monitors.records import EMPTY, Recording, Series
from tests.unit.analysis.builders import SECOND, records

MS = 1_000_000
SPANS = {"preprocess": 0.3, "queue": 0.5, "inference": 1.2, "postprocess": 0.2}


def window(**extra_ms: float) -> Window:
    """Requests of 5 ms, or more by what each part takes longer."""
    extra = {part: extra_ms.get(part, 0.0) for part in (*SPANS, "transmit", "unattributed")}
    columns: dict[str, Any] = {
        f"server_{name}_ns": np.full(2000, int((value + extra[name]) * MS)) for name, value in SPANS.items()
    }
    table = records(5.0 + sum(extra.values()), noise=0, **columns)
    sent = table.column("intended_ns").to_numpy() + int((0.02 + extra["unattributed"]) * MS)
    table = table.set_column(table.schema.get_field_index("sent_ns"), table.schema.field("sent_ns"), [sent])
    return Window.of(table, 2 * SECOND, 10 * SECOND)


@pytest.mark.parametrize("part", PARTS)
def test_20_ms_are_found_in_the_part_where_they_were_spent(part: str) -> None:
    """20 ms more in one part show there, and nowhere else."""
    before, after = breakdown(window(), EMPTY), breakdown(window(**{part: 20.0}), EMPTY)
    assert after["method"] == "per_request"
    for name in PARTS:
        assert after[name]["mean"] - before[name]["mean"] == pytest.approx(
            20.0 if name == part else 0.0, abs=1e-6
        )


def test_the_parts_of_every_request_add_up() -> None:
    """Their sum is the end-to-end latency of each request, to the nanosecond."""
    seen = window()
    parts = per_request(seen)
    assert np.array_equal(np.sum([parts[p] for p in PARTS], axis=0), seen.done_ns - seen.intended_ns)


def test_a_request_that_told_only_some_spans_does_not_count() -> None:
    """Requests without all spans are left out of the breakdown, and the coverage says so."""
    spans: dict[str, Any] = {f"server_{name}_ns": np.full(2000, MS // 10) for name in SPANS}
    spans["server_queue_ns"][::2] = -1
    found = breakdown(Window.of(records(5.0, **spans), 2 * SECOND, 10 * SECOND), EMPTY)
    assert found["coverage_ratio"] == 0.5


def triton(requests: float) -> Recording:
    """Counters of Triton that grow over 12 s: 1 ms queue, 0.1 + 2 + 0.2 ms compute per request."""
    per_request_us = {"queue": 1000, "compute_input": 100, "compute_infer": 2000, "compute_output": 200}
    t_ns = np.arange(13) * SECOND
    growth = {
        f"nv_inference_{name}_duration_us_total": us * requests / 12 for name, us in per_request_us.items()
    }
    growth["nv_inference_request_success_total"] = requests / 12
    return Recording(
        {("server_metrics", n): Series(t_ns, np.arange(13) * rate + 7.0) for n, rate in growth.items()}, {}
    )


@pytest.mark.parametrize(
    ("samples", "runs"),
    [("inferbench_server_inferences_total", "inferbench_server_executions_total"),
     ("nv_inference_count_total", "nv_inference_exec_count_total")],
)  # fmt: skip
def test_item_15_the_mean_dynamic_batch_is_what_the_server_counted(samples: str, runs: str) -> None:
    """15.15: 1,200 samples in 100 runs are batches of twelve, by our server's counters and by Triton's."""
    t_ns = np.arange(13) * SECOND
    growth = {samples: 1200.0, runs: 100.0}
    series = {("server_metrics", name): Series(t_ns, np.arange(13) * rate) for name, rate in growth.items()}
    assert batch_samples(window(), Recording(series, {})) == pytest.approx(12.0)
    assert batch_samples(window(), EMPTY) is None


def test_a_servers_statistics_give_the_means() -> None:
    """Without spans, Triton's counters over the window do; transmission is what is left."""
    found = breakdown(Window.of(records(5.0, noise=0), 2 * SECOND, 10 * SECOND), triton(2400))
    assert found["method"] == "server_statistics"
    means = {part: found[part]["mean"] for part in PARTS}
    assert means == pytest.approx(
        {
            "preprocess": 0.1,
            "queue": 1.0,
            "inference": 2.0,
            "postprocess": 0.2,
            "transmit": 1.68,
            "unattributed": 0.02,
        }
    )
    assert sum(means.values()) == pytest.approx(found["e2e"]["mean"])


def test_a_silent_server_leaves_everything_unattributed() -> None:
    """Nothing told: one block, and the reason."""
    found = breakdown(Window.of(records(5.0, noise=0), 2 * SECOND, 10 * SECOND), EMPTY)
    assert found["method"] == "difference"
    assert found["unattributed"]["mean"] == pytest.approx(found["e2e"]["mean"])
    assert found["inference"] is None and "tells no times" in found["reason"]


def test_without_an_answer_there_is_no_breakdown() -> None:
    """All requests failed: nothing is said."""
    assert breakdown(Window.of(records(5.0, failed=2000), 2 * SECOND, 10 * SECOND), EMPTY) == {}


def test_a_withheld_latency_does_not_come_back_in_the_breakdown() -> None:
    """Where the p99 of the whole is withheld, that of the parts in which a request waits is too."""
    told: dict[str, Any] = {f"server_{name}_ns": np.full(2000, MS // 10) for name in SPANS}
    table = records(5.0, **told)
    window_ = Window.of(table, 2 * SECOND, 10 * SECOND)
    summary = {"e2e_latency_ms": {"p99": None, "withheld": {"p99": "the client made it"}}}
    stages = Stages().compute(Measured(window_, EMPTY, summary, {}))
    assert stages["e2e"]["p99"] is stages["transmit"]["p99"] is stages["queue"]["p99"] is None
    assert stages["e2e"]["mean"] == pytest.approx(5.1, rel=0.1)
    assert stages["inference"]["p99"] == pytest.approx(0.1)
