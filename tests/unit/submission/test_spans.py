"""``evaluate.spans``: what may be said, and what is refused with its line before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.files import missing_files
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.submission.schema import JobSpec

YAML = """\
name: asked
model: {kind: zoo, name: digits}
evaluate:
  dataset: squad
  path: dev-v2.0.json
  spans: {tokenizer: tokenizer.json, max_answer_tokens: 20}
"""


def test_it_has_the_usual_values_of_what_is_not_said() -> None:
    """384 tokens, and no margin."""
    spec: Any = read_submission_text(YAML, "q.yaml", INSTALLED)
    spans = spec.evaluate.spans
    assert (spans.max_tokens, spans.max_answer_tokens, spans.no_answer_margin) == (384, 20, 0.0)


@pytest.mark.parametrize(
    ("then", "now", "message"),
    [
        ("dataset: squad", "dataset: table", ""),
        (
            "dataset: squad",
            "dataset: coco",
            r"q.yaml:6: evaluate.spans: is of questions about texts; .*\(squad\)",
        ),
        ("  dataset: squad\n  path: dev-v2.0.json\n", "", r"q.yaml:4: evaluate.spans: is of questions"),
        ("tokenizer.json", "../x.json", r"q.yaml:6: evaluate.spans.tokenizer: "),
        ("20", "0", r"q.yaml:6: evaluate.spans.max_answer_tokens: must be a whole number from 1"),
        ("max_answer_tokens", "answer_tokens", r"q.yaml:6: .*unknown key; did you mean 'max_answer_tokens'"),
    ],
)
def test_what_has_no_questions_is_refused_by_its_line(then: str, now: str, message: str) -> None:
    """Another data set, the model's own, a path that leads out, no tokens; of a table only its file tells its form."""
    assert then in YAML
    if not message:
        read_submission_text(YAML.replace(then, now), "q.yaml", INSTALLED)
        return
    with pytest.raises(InferBenchError, match=message):
        read_submission_text(YAML.replace(then, now), "q.yaml", INSTALLED)


def job(**evaluate: Any) -> JobSpec:
    return JobSpec.model_validate(
        {"name": "n", "model": {"kind": "zoo", "name": "digits"}, "evaluate": evaluate}
    )


def test_the_tokenizer_is_a_file_of_the_submission(tmp_path: Path) -> None:
    """One that is not there is named before anything starts."""
    (tmp_path / "dev.json").touch()
    spec = job(dataset="squad", path="dev.json", spans={"tokenizer": "tokenizer.json"})
    (finding,) = missing_files(spec, tmp_path)
    assert finding.fields == ("evaluate.spans.tokenizer",)


def test_a_submission_without_it_keeps_its_digest() -> None:
    """Null is as if the field had never come; another length of answers is another job."""
    assert job_digest(job()) == job_digest(job(spans=None))
    asked = {"dataset": "squad", "path": "dev.json"}
    lengths = [job_digest(job(**asked, spans={"max_answer_tokens": most})) for most in (20, 30)]
    assert len({job_digest(job(**asked)), *lengths}) == 3
