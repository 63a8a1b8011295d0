"""Which submissions a capacity is searched for, and the runs that are made for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from inferbench_tasks.cli.recommend_capacity import jobs_of, search
from inferbench_tasks.cores import usable_cores
from inferbench_tasks.errors import InputError

LLM: dict[str, Any] = {
    "name": "llm",
    "model": {"kind": "llm_stand_in", "slots": 2},
    "convert": {"format": "llm_stand_in"},
    "serve": {"backend": "llm_stand_in"},
    "requests": {"kind": "prompts"},
    "load": {"protocol": "openai", "arrivals": {"kind": "poisson", "rate_rps": 8.0}, "duration_s": 30},
    "slo": {"each": {"ttft_ms": 100}, "min_good_ratio": 0.95},
}


def written(folder: Path, **changes: Any) -> Path:
    """A submission of a language model."""
    path = folder / "llm.yaml"
    path.write_text(yaml.safe_dump({**LLM, **changes}))
    return path


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"slo": {"p99_ms": 50}}, "slo", "max_rate"),
        ({"load": {**LLM["load"], "max_requests": 50}}, "load.max_requests", "leave it out"),
        (
            {"load": {**LLM["load"], "arrivals": {"kind": "ramp", "start_rate_rps": 1, "end_rate_rps": 9}}},
            "load.arrivals",
            "no rate or number of users",
        ),
        ({"sweep": {"load.arrivals.rate_rps": [1, 2]}}, "sweep.load.arrivals.rate_rps", "out of the sweep"),
    ],
)
def test_what_can_not_be_searched_is_an_error_at_its_field(
    tmp_path: Path, changes: dict[str, Any], field: str, words: str
) -> None:
    """An objective of percentiles, loads cut by a count, arrivals without a rate, and a rate that is swept as well."""
    with pytest.raises(InputError, match=words) as caught:
        jobs_of(written(tmp_path, **changes))
    assert caught.value.field == field


def test_each_configuration_is_searched_at_levels_of_its_own(tmp_path: Path) -> None:
    """Runs differ from the job in rate and length alone, and the row says what came of them."""
    jobs = jobs_of(written(tmp_path, sweep={"model.slots": [1, 2]}))
    asked = []

    def run(job: Any) -> dict[str, Any]:
        asked.append(job.spec)
        good = job.spec.traffic.arrivals.rate_rps <= 10 * job.spec.model.slots
        tokens = {"requests": 200, "good": 200 if good else 0}
        return {
            "run_id": "r",
            "verdict": "valid",
            "summary": {"tokens": tokens},
            "certificate": {"figures": {}},
        }

    rows = [search(job, run, 12).row() for job in jobs]
    assert [row["configuration"] for row in rows] == ["slots 1", "slots 2"]
    for row, knee in zip(rows, (10, 20), strict=True):
        assert knee / 1.05 <= row["capacity"] <= knee < row["not kept at"] and row["unit"] == "requests/s"
    load = {"load": jobs[0].spec.traffic}
    assert all(spec.model_copy(update=load) == jobs[spec.model.slots - 1].spec for spec in asked)


def test_what_systems_asks_for_is_this_machine(tmp_path: Path) -> None:
    """Each of its jobs says which it is; what it misses is said, and a job on each system is no search."""
    (job,) = jobs_of(written(tmp_path, systems={"cores": ">=1", "device": "cpu"}))
    assert job.spec.system is not None and job.spec.system.cores == usable_cores()
    with pytest.raises(InputError, match=r"systems\.cores: >=99999 is missed by "):
        jobs_of(written(tmp_path, systems={"cores": ">=99999"}))
    with pytest.raises(InputError, match="compares runs of one system; leave all out"):
        jobs_of(written(tmp_path, systems={"all": True}))
