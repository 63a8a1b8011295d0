"""Every submission that comes with InferBench validates, and every YAML beside them is one or says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.sweep import expand

CONFIGS = Path(__file__).parents[2] / "configs"
#: Folders whose every YAML is a submission.
FOLDERS = ("submissions", "nightly")
SUBMISSIONS = sorted(path for name in FOLDERS for path in (CONFIGS / name).rglob("*.y*ml"))


def _name(path: Path) -> str:
    return str(path.relative_to(CONFIGS))


@pytest.mark.parametrize("path", SUBMISSIONS, ids=_name)
def test_a_submission_that_comes_with_inferbench_is_valid(path: Path) -> None:
    """It reads, has a job at least, and is named as its file, by which its DAG is found."""
    submission = read_submission(path, INSTALLED)
    assert expand(submission)
    assert submission.name == path.stem


def test_there_are_submissions() -> None:
    """The quick start is one of them."""
    assert "submissions/quickstart.yaml" in [_name(path) for path in SUBMISSIONS]


def test_names_are_unique() -> None:
    """Two submissions of one name would be one DAG."""
    names = [read_submission(path, INSTALLED).name for path in SUBMISSIONS]
    assert len(set(names)) == len(names)
