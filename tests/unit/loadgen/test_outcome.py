"""Where the window of a load ends that hands over all requests at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.loadgen.controller import Applied
from inferbench_tasks.loadgen.outcome import issued_window, last_answer_ns, with_an_answer
from inferbench_tasks.loadgen.spool import Recorder
from inferbench_tasks.loadgen.summary import summarise
from tests.samples import samples_table

S = 1_000_000_000


def test_an_offline_window_ends_at_the_last_answer_not_at_the_last_failure() -> None:
    """15.16: 999 answers in a second and one timeout after ten are 999/s, and the failure is counted."""
    done_ns = np.append(np.linspace(1, S, 999).astype(np.int64), 10 * S)
    table = samples_table(
        {"intended_ns": np.zeros(1000, np.int64), "done_ns": done_ns, "status": ["ok"] * 999 + ["timeout"]}
    )
    end_ns = last_answer_ns(table)
    assert end_ns == S
    summary = summarise(table, measure_start_ns=0, measure_end_ns=end_ns)
    assert summary["throughput_rps"] == pytest.approx(999)
    assert summary["errors"] == {"timeout": 1}


def test_a_window_without_any_answer_ends_at_the_last_failure() -> None:
    """Nothing else says how long was waited; no records leave no end."""
    columns: dict[str, Any] = {
        "intended_ns": [0, 0],
        "done_ns": [3 * S, 2 * S],
        "status": ["timeout", "refused"],
    }
    assert last_answer_ns(samples_table(columns)) == 3 * S
    assert last_answer_ns(samples_table({"intended_ns": [], "done_ns": []})) == -1


@pytest.mark.parametrize(
    ("done_s", "status", "end_s"),
    [([12, 13], ["ok", "ok"], 13), ([12, 99], ["ok", "timeout"], 12), ([10.5, 13], ["ok", "ok"], 11)],
)
def test_a_window_that_its_number_of_requests_ended_has_an_answer(
    done_s: list[float], status: list[str], end_s: float
) -> None:
    """One request, or one of each user: the window would be a moment, and all per second of it billions."""
    done_ns = (np.array(done_s) * S).astype(np.int64)
    table = samples_table({"intended_ns": [10 * S, 11 * S], "done_ns": done_ns, "status": status})
    assert with_an_answer(table, 10 * S, 11 * S) == end_s * S


def test_mlperfs_window_ends_at_the_last_answer_too(tmp_path: Path) -> None:
    """A query that failed at its timeout makes the window no longer; one that was issued belongs to it."""
    path = tmp_path / "0.spool"
    with Recorder(path, 0) as recorder:
        for index, (done_ns, status) in enumerate([(S, "ok"), (2 * S, "ok"), (10 * S, "timeout")]):
            recorder.append(index, 1, index, index, -1, done_ns, recorder.status_code(status), 0, 0, 0, 1)
    applied = Applied(start_ns=0, end_ns=20 * S, spools=(path,), usages=())
    assert issued_window(applied, 0, 20 * S) == (0, 2 * S)
