"""What a plan costs as a submission grows; counted, for times are the machine's."""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path

import yaml

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.submission.reader import read_with_jobs
from tests.unit.plan.test_compile import submission


def calls(path: Path) -> int:
    """Function calls of reading a submission and of making its plan."""
    profile = cProfile.Profile()
    with profile:
        compile_plan(*read_with_jobs(path, INSTALLED))
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_twice_as_many_jobs_are_twice_the_work(tmp_path: Path) -> None:
    """Reading and planning 400 jobs take at most 2.1 times as many function calls as 200: none looks at all others."""
    paths = []
    for jobs in (200, 400):
        swept = {"load.seed": list(range(jobs // 4)), "serve.threads": [1, 2, 3, 4]}
        document = submission().model_dump(mode="json", exclude_defaults=True) | {"sweep": swept}
        paths.append(tmp_path / f"{jobs}.yaml")
        paths[-1].write_text(yaml.safe_dump(document))
    calls(paths[0])  # whatever is read or imported once
    half, whole = map(calls, paths)
    assert len(compile_plan(*read_with_jobs(paths[0], INSTALLED)).jobs) == 200
    assert 1.5 * half < whole <= 2.1 * half
