"""Inputs that nobody thought of: what a user may send as a submission, changed by hypothesis in all ways it finds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.provider.api.limits import MAX_BODY_BYTES
from inferbench_tasks.submission.document import MAX_BYTES, MAX_DEPTH, MAX_KEYS, MAX_LINES, MAX_VALUES
from inferbench_tasks.submission.reader import read_submission, read_submission_data, read_submission_text
from tests.security.bounds import Limits, cpu_s
from tests.security.corpus.test_bodies import VALIDATE, http  # noqa: F401 - a fixture
from tests.security.fuzzed import ANYTHING, FOLDER, bodies, changed_documents, changed_texts, documents, texts

pytestmark = pytest.mark.airflow
#: Wall clock is the machine's, so hypothesis has no deadline: each example has a bound on its CPU time.
FUZZED = settings(
    max_examples=150,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
MAX_CPU_S = 5.0


@pytest.fixture
def limits() -> Limits:
    """Of a test: its examples have 5 s each; the memory of all of them together is bounded."""
    return Limits(cpu_s=math.inf, mib=300)


@contextmanager
def in_time() -> Iterator[None]:
    """One example takes 5 s of CPU at most."""
    began_s = cpu_s()
    yield
    assert cpu_s() - began_s < MAX_CPU_S


def problems_of(error: SubmissionError) -> None:
    """Problems are few, and each can be shown."""
    assert 1 <= len(error.problems) <= 101
    for problem in error.problems:
        assert problem.message
        json.dumps(problem.as_dict()).encode()
        assert len(str(problem)) < 20_000


@FUZZED
@given(body=bodies())
def test_any_body_is_answered(http: TestClient, body: bytes) -> None:  # noqa: F811
    """200 or a reason, as JSON: never an exception, which the client here would raise."""
    with in_time():
        answer = http.post(VALIDATE, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400, 422)
    content = answer.json()
    assert len(answer.content) < 1_000_000
    if answer.status_code == 200:
        assert content["jobs"] >= 1
    else:
        assert content["detail"]


@FUZZED
@given(document=changed_documents() | ANYTHING)
def test_any_data_is_a_submission_or_has_problems(document: Any) -> None:
    """The reader of JSON raises SubmissionError and nothing else."""
    with in_time():
        try:
            read_submission_data(document, "fuzz", INSTALLED, base_dir=FOLDER)
        except SubmissionError as error:
            problems_of(error)


@FUZZED
@given(text=changed_texts())
def test_any_text_is_a_submission_or_has_problems(text: str) -> None:
    """The reader of YAML raises SubmissionError and nothing else."""
    with in_time():
        try:
            read_submission_text(text, "fuzz", INSTALLED, base_dir=FOLDER)
        except SubmissionError as error:
            problems_of(error)


@pytest.mark.parametrize("index", range(len(texts())))
def test_what_is_changed_was_good(index: int) -> None:
    """Each submission that the examples start from is valid: they reach what lies behind the first checks."""
    assert read_submission_text(texts()[index], "good", INSTALLED, base_dir=FOLDER)
    assert documents()


GOOD = """name: x
model: {kind: zoo, name: digits}
load: {arrivals: {kind: poisson, rate_rps: 10}}
"""
SEEDS = f"load.seed: {list(range(100))}"
#: Mappings of unknown keys, the most that fit.
UNKNOWN = "{" + ", ".join(f"k{number}: 1" for number in range(1000)) + "}"
ARRIVALS = "[" + ", ".join(f"{{kind: poisson, rate: {n}, rats: {n}, k{n}: 1}}" for n in range(1000)) + "]"
#: Texts at the limits of the reader: as large, as deep, as many values as it takes, and one more.
EDGES = {
    "anchors that repeat": "name: x\n"
    + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 1}]\n" for i in range(9)),
    "one long line": "name: " + "x" * (MAX_BYTES - 6),
    "one long key": "x" * (MAX_BYTES - 4) + ": 1",
    "one long comment": "#" * (MAX_BYTES - 1) + "\n",
    "only indentation": " " * MAX_BYTES,
    "only line ends": "\n" * MAX_BYTES,
    "as many lines as it takes": "\n" * MAX_LINES,
    "only dashes": "- " * (MAX_BYTES // 2),
    "only brackets": "[" * MAX_BYTES,
    "only braces": "{" * MAX_BYTES,
    "only questions": "? " * (MAX_BYTES // 2),
    "only anchors": "&a " * (MAX_BYTES // 3),
    "only tags": "!a " * (MAX_BYTES // 3),
    "only quotes": "'" * MAX_BYTES,
    "an open quote": "name: '" + "x\n" * (MAX_BYTES // 2 - 10),
    "an open quote of as many lines as it takes": "name: '" + "x\n" * (MAX_LINES - 1),
    "only escapes": 'name: "' + "\\x41" * (MAX_BYTES // 4 - 10) + '"',
    "a deep block": "".join("  " * depth + "a:\n" for depth in range(MAX_DEPTH + 5)),
    "as many values as it takes": "name: x\ntags: [" + "a," * (MAX_VALUES - 10) + "]",
    "as many keys as it takes": "\n".join(f"k{i}: 1" for i in range(MAX_KEYS)),
    "more keys than it takes": "\n".join(f"k{i}: 1" for i in range(MAX_VALUES // 2 - 10)),
    "unknown names everywhere": f"name: x\nmodel: {UNKNOWN}\nload: {UNKNOWN}\nserve: {UNKNOWN}\nslo: {UNKNOWN}\n"
    f"share: {{beside: [{', '.join([UNKNOWN] * 15)}]}}",
    "bounds that are none": f"{GOOD}slo: {UNKNOWN}",
    "a folded text": "name: >\n" + "  x\n" * (MAX_LINES - 1),
    "lists in lists": "name: [" + "[[[[]]]], " * 9_000 + "]",
    "a number of a million digits": "priority: " + "9" * (MAX_BYTES - 10),
    "a sweep of a million points": f"{GOOD}sweep: {{load.seed: {list(range(1000))}, "
    f"load.batch_size: {list(range(1, 1001))}}}",
    "a sweep of 1,000 unknown paths": "name: x\nsweep: {" + ", ".join(f"load.a{i}: [1]" for i in range(1000)) + "}",
    "zips of unknown paths": f"{GOOD}sweep: {{zip: [" + ", ".join(f"{{load.a{i}: [1]}}" for i in range(9000)) + "]}",
    "zips of one path": f"{GOOD}sweep: {{zip: [" + "{load.seed: [1]}, " * 9000 + "]}",
    "10,000 wrong jobs": f"{GOOD}sweep: {{load.arrivals: {ARRIVALS}, load.seed: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}}",
    "10,000 impossible jobs": f"{GOOD}serve: {{backend: onnxruntime}}\nsweep: {{convert.format: "
    f"{['torchscript' + 'x' * n for n in range(50)]}, {SEEDS}}}",
    "10,000 wrong objectives": f"{GOOD}sweep: {{slo: [{', '.join([UNKNOWN] * 20)}], {SEEDS}}}",
}  # fmt: skip


class TestEdges:
    """Texts at the limits."""

    @pytest.fixture
    def limits(self) -> Limits:
        """Each is one input: the limits of the corpus."""
        return Limits()

    @pytest.mark.parametrize("edge", EDGES)
    def test_a_text_at_the_limits_is_read_or_refused(self, edge: str, tmp_path: Any) -> None:
        """In time and memory, by SubmissionError; from a file too."""
        path = tmp_path / "edge.yaml"
        path.write_text(EDGES[edge], encoding="utf-8")
        with pytest.raises(SubmissionError) as refusal:
            read_submission(path, INSTALLED)
        problems_of(refusal.value)

    @pytest.mark.parametrize("edge", ["only line ends", "unknown names everywhere", "10,000 wrong jobs"])
    def test_a_body_with_such_a_text_is_refused(self, http: TestClient, edge: str) -> None:  # noqa: F811
        """As a text within JSON; 413 where it is longer than a body may be."""
        body = json.dumps({"submission": EDGES[edge]}, ensure_ascii=False)
        answer = http.post(VALIDATE, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == (422 if len(body) <= MAX_BODY_BYTES else 413)
        assert len(answer.content) < 1_000_000
