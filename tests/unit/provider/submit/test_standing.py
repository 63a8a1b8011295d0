"""What a submission may say of its own place among others."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.provider.render import render
from inferbench_tasks.provider.submit.request import SubmissionRequest, resolve
from inferbench_tasks.provider.submit.standing import claim_s
from inferbench_tasks.submission.base import SubmissionBase
from inferbench_tasks.submission.sweep import expand

pytestmark = pytest.mark.airflow
LOAD = "load: {arrivals: {kind: poisson, rate_rps: 10}, duration_s: 100}\n"
TEXT = f"name: quick\nmodel: {{kind: zoo, name: digits}}\n{LOAD}"


@pytest.fixture(autouse=True)
def logins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "ann:submitter,root:admin,op:op")


def asked(tmp_path: Path, login: str | None, said: str) -> SubmissionBase:
    return resolve(SubmissionRequest(submission=TEXT + said), tmp_path, login=login).submission


@pytest.mark.parametrize(("login", "counts"), [("ann", 0), ("root", 90), ("op", 90), (None, 90)])
def test_a_priority_counts_by_role(tmp_path: Path, login: str | None, counts: int) -> None:
    """Also in Airflow's own weights, by which models are generated and converted before any device is needed."""
    submission = asked(tmp_path, login, "priority: 90\n")
    assert submission.priority == counts
    dag = render(submission, base_dir=tmp_path, one_at_a_time=False, dag_id="x")
    plain = render(asked(tmp_path, "ann", ""), base_dir=tmp_path, one_at_a_time=False, dag_id="y")
    weights = [d.get_task("job-000.generate").priority_weight for d in (dag, plain)]
    assert (weights[0] > weights[1]) == bool(counts)


def test_a_low_priority_counts_for_all(tmp_path: Path) -> None:
    """Who wants to wait may; by the form's own field too."""
    assert asked(tmp_path, "ann", "priority: -5\n").priority == -5
    request = SubmissionRequest(submission=TEXT, priority=90)
    assert resolve(request, tmp_path, login="ann").submission.priority == 0


@pytest.mark.parametrize(
    ("said_s", "least_s", "most_s"), [(103, 105, 3600), (86_400, 3600, 3600), (600, 600, 600)]
)
def test_an_expected_duration_counts_within_reason(
    tmp_path: Path, said_s: int, least_s: float, most_s: float
) -> None:
    """A submitter's job is as long as its load at least (else it would go first), and holds no device for days."""
    said = f"expected_duration_s: {said_s}\n"
    submission = asked(tmp_path, "ann", said)
    assert submission.expected_duration_s is not None
    assert least_s <= submission.expected_duration_s <= most_s
    assert least_s <= claim_s(expand(asked(tmp_path, None, said))[0].spec, "ann") <= most_s, (
        "of any DAG that it starts"
    )
    assert asked(tmp_path, "root", said).expected_duration_s == said_s
    assert asked(tmp_path, "ann", "").expected_duration_s is None
