"""What was asked for becomes a submission, or a list of problems."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.provider.submit.request import SubmissionRequest, names, resolve
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.schema import serving_only

CONFIGS = Path(__file__).parents[4] / "configs" / "submissions"
GOOD = """
name: quick
model: {kind: zoo, name: digits}
load: {arrivals: {kind: poisson, rate_rps: 10}}
slo: {latency_p99_ms: 50, latency_p50_ms: 20}
sweep: {serve.threads: [1, 2], zip: {load.batch_size: [1, 8], load.arrivals.rate_rps: [800, 100]}}
"""


def problems(**given: object) -> list[tuple[str, int | None, str]]:
    with pytest.raises(SubmissionError) as caught:
        resolve(SubmissionRequest.model_validate(given), CONFIGS)
    return [(p.field, p.line, p.message) for p in caught.value.problems]


def test_a_form_changes_user_priority_and_slo() -> None:
    """What the form gives replaces what the text says; the rest, and other bounds of the SLO, stay."""
    form = {"submission": GOOD, "name": "", "user": "me", "priority": 7, "slo_latency_p99_ms": 95.5}
    found = resolve(SubmissionRequest.of_parameters(form), CONFIGS).submission
    assert (found.user, found.priority) == ("me", 7)
    slo = serving_only(found, "").slo
    assert slo and slo.percentile_bounds_ms() == {"p50": 20.0, "p99": 95.5}
    assert found.sweep and found.sweep.grid == {"serve.threads": [1, 2]}
    assert len(found.sweep.zip) == 1
    named = {**form, "p99_ms": form.pop("slo_latency_p99_ms")}
    assert resolve(SubmissionRequest.of_parameters(form | named), CONFIGS).submission == found


def test_the_login_is_the_user_of_a_submission_without_one() -> None:
    """A user in the text is kept; "anonymous" becomes the login."""
    plain = resolve(SubmissionRequest(submission=GOOD), CONFIGS, login="ann").submission
    named = resolve(SubmissionRequest(submission=GOOD + "user: bob\n"), CONFIGS, login="ann").submission
    assert (plain.user, named.user) == ("ann", "bob")


def test_conf_goes_there_and_back() -> None:
    """A request survives being the conf of a DAG run."""
    request = SubmissionRequest(submission={"name": "x"}, user="a", priority=0, slo={"latency_p50_ms": 3})
    assert SubmissionRequest.of_parameters(request.parameters()) == request


def test_every_problem_of_a_text_with_its_line() -> None:
    """The text's own problems come with line and field, all at once."""
    found = problems(submission="name: x\nmodel: {kind: zoo, name: digits}\nlod: {}\npriority: high\n")
    assert ("lod", 3) in [(field, line) for field, line, _ in found]
    assert ("priority", 4) in [(field, line) for field, line, _ in found]


def test_what_the_form_changes_is_checked_too() -> None:
    """An impossible user or bound names its own field."""
    assert [f for f, _, _ in problems(submission=GOOD, user="<script>")] == ["user"]
    assert [f for f, _, _ in problems(submission=GOOD, slo={"latency_p98_ms": 1})] == ["slo.latency_p98_ms"]
    assert [f for f, _, _ in problems(submission=GOOD, slo={"latency_p99_ms": -1})] == ["slo.p99_ms"]


@pytest.mark.parametrize(
    ("given", "said"),
    [({}, "nothing is given"), ({"submission": "a: 1", "name": "quickstart"}, "both are given"),
     ({"name": "quickstar"}, "did you mean 'quickstart'"), ({"name": "../../etc/passwd"}, "no submission")],
)  # fmt: skip
def test_one_source_that_exists(given: dict[str, object], said: str) -> None:
    """Neither, both, an unknown name, a path out of the folder: each is told."""
    assert said in problems(**given)[0][2]


@pytest.mark.parametrize("name", names(CONFIGS))
def test_every_submission_of_the_folder_by_its_name(name: str) -> None:
    """By name, changed or not, it is the file's own submission."""
    path = next(p for s in (".yaml", ".yml") if (p := CONFIGS / f"{name}{s}").exists())
    assert resolve(SubmissionRequest(name=name), CONFIGS).submission == read_submission(path, INSTALLED)
    changed = resolve(SubmissionRequest(name=name, user="someone"), CONFIGS).submission
    assert changed == read_submission(path, INSTALLED).model_copy(update={"user": "someone"})
