"""What a list of traces says of each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from inferbench_tasks.tracing.stored import _row_of_run

UNTOLD = {"layer": "OpenVINO has no counters here.\nits log", "library": "no perf"}


@pytest.mark.parametrize(
    ("trace", "problem"),
    [
        ({"levels": ["application", "model"], "spans": 4}, ""),
        ({"problem": "no server\nits log"}, "no server"),
        ({"unstored": "no room"}, "no room"),
        (
            {"levels": ["application", "model"], "untold": UNTOLD},
            "level layer is not told: OpenVINO has no counters here; level library is not told: no perf",
        ),
        ({"unstored": "no room", "untold": UNTOLD}, "no room"),
        (
            {"deleted_at": datetime(2026, 1, 2, tzinfo=UTC), "untold": UNTOLD},
            "its spans were deleted on 2026-01-02",
        ),
    ],
)
def test_a_list_says_what_a_trace_lacks(trace: dict[str, Any], problem: str) -> None:
    """Why it has no spans, else which levels were asked for and are not in it; nothing of a whole one."""
    raw = {
        "run_id": "r", "created_at": datetime(2026, 1, 1, tzinfo=UTC), "model": {"name": "m"},
        "backend": {"kind": "onnxruntime"}, "extensions": {"trace": trace},
    }  # fmt: skip
    assert _row_of_run(raw)["problem"] == problem
