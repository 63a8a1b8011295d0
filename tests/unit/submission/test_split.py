"""``evaluate.split``: refused with its line where there is none of that name, and without it no digest changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.submission.schema import JobSpec
from tests.unit.datasets.test_splits import folder

HEAD = "name: parts\nmodel: {kind: zoo, name: digits}\n"


def problems(evaluate: str, base_dir: Path | None = None) -> list[str]:
    """What is wrong with a submission that evaluates so, with lines."""
    try:
        read_submission_text(HEAD + evaluate, "x.yaml", INSTALLED, base_dir=base_dir)
    except SubmissionError as error:
        return [str(problem) for problem in error.problems]
    return []


def test_a_split_that_is_not_there_has_its_line_and_those_that_are(tmp_path: Path) -> None:
    """Of a data set of ours, of the user's folder, swept, and where no data set is named."""
    assert problems("evaluate:\n  dataset: digits\n  split: train\n") == []
    assert problems("evaluate:\n  dataset: digits\n  split: val\n") == [
        "x.yaml:5: evaluate.split: digits has no split 'val'; there are: train, test"
    ]
    (swept,) = problems("evaluate: {dataset: digits}\nsweep:\n  evaluate.split:\n    - test\n    - val\n")
    assert swept.startswith("x.yaml:6: sweep.evaluate.split[1]: ") or "digits has no split 'val'" in swept
    (unnamed,) = problems("evaluate:\n  split: test\n")
    assert unnamed.startswith("x.yaml:3: evaluate: split goes with dataset")
    folder(tmp_path / "pets", train={"0": 1}, val={"0": 1})
    mine = "evaluate:\n  dataset: folder\n  path: pets\n  split: {}\n"
    assert problems(mine.format("val"), tmp_path) == []
    assert problems(mine.format("dev"), tmp_path) == [
        "x.yaml:6: evaluate.split: folder has no split 'dev'; there are: train, val"
    ]


@pytest.mark.parametrize("field", ["split", "parts"])
def test_a_submission_without_it_keeps_its_digest(field: str) -> None:
    """Null is as if the field had never come."""

    def digest(**evaluate: Any) -> str:
        spec = {"name": "n", "model": {"kind": "zoo", "name": "digits"}, "evaluate": evaluate}
        return job_digest(JobSpec.model_validate(spec))

    assert digest(dataset="digits") == digest(dataset="digits", **{field: None})
    assert digest(dataset="digits") != digest(dataset="digits", split="train")
