"""Links from Airflow's tasks to our pages."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.provider.links import RunLink, TraceLink

pytestmark = pytest.mark.airflow


def test_a_task_that_traces_leads_to_the_trace(data_dir: Path) -> None:
    """To that of its own job's run; tasks of other stages and of no job lead to none."""
    key: Any = SimpleNamespace(dag_id="shop", run_id="manual__2026-01-01")

    def link(stage: str, job: int | None) -> str:
        operator: Any = SimpleNamespace(node=SimpleNamespace(stage=stage, job_index=job))
        return TraceLink().get_link(operator, ti_key=key)

    of_run = RunLink().get_link(
        SimpleNamespace(node=SimpleNamespace(stage="trace", job_index=3)),  # type: ignore[arg-type]
        ti_key=key,
    )
    assert link("trace", 3) == of_run.replace("/run/", "/trace/") and of_run.endswith(".003")
    assert link("load", 3) == link("trace", None) == ""
