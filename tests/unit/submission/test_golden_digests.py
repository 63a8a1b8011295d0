"""Digests and job ids are those of the version before the restructuring (``tests/data/golden``).

A job's id and digest stand in every stored result: were they to change, today's history of a job would end.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.submission.reader import read_with_jobs
from inferbench_tasks.submission.sweep import expand
from tests.unit.submission.golden import ROOT, WITHOUT_FILES, entries, entry

ENTRIES = entries()
NAMES = sorted(ENTRIES)


@pytest.mark.parametrize("name", NAMES)
def test_a_submission_amounts_to_the_same_jobs(name: str) -> None:
    """Its digest, and every job's id and digest, are those that were written down."""
    assert (ROOT / name).exists(), f"{name} is gone or was renamed: its jobs are asked for by older results"
    now, then = entry(ROOT / name, name), ENTRIES[name]
    assert now["text"] == then["text"], (
        f"{name} was edited; if that is meant: python -m tests.unit.submission.golden"
    )
    assert now == then


def test_every_submission_is_written_down() -> None:
    """All of ``configs``, an example, and nine that use what those leave out."""
    shipped = {str(path.relative_to(ROOT)) for path in (ROOT / "configs/submissions").rglob("*.yaml")}
    missing = ", ".join(sorted(shipped - set(NAMES)))
    assert not missing, f"python -m tests.unit.submission.golden writes down what is new: {missing}"
    folders = [name.rpartition("/")[0] for name in NAMES]
    assert sum(folder.startswith("examples/") for folder in folders) == 1
    assert folders.count("tests/data/golden/submissions") == 9


@pytest.mark.parametrize("name", ["trace", "quickstart", "shares"])
def test_a_digest_does_not_depend_on_where_the_file_lies(name: str, tmp_path: Path) -> None:
    """In another folder, and read from another working directory, all is the same."""
    path = next(path for path in NAMES if Path(path).stem == name)
    assert path not in WITHOUT_FILES
    folder = shutil.copytree((ROOT / path).parent, tmp_path / "elsewhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert entry(folder / Path(path).name, path) == ENTRIES[path]


@pytest.mark.parametrize("name", ["trace", "quickstart", "shares", "search"])
def test_the_jobs_that_checking_made_are_those_of_the_submission(name: str) -> None:
    """A reader's own jobs equal those that are made of what it read, files' contents and all."""
    path = next(path for path in NAMES if Path(path).stem == name)
    submission, jobs = read_with_jobs(ROOT / path, INSTALLED)
    assert jobs == expand(submission)
