"""FAB's auth manager in place of the simple one, as ``docs/how-to/logins-of-a-team.md`` sets it up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.airflow_site import ROOT, answers_of

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
pytest.importorskip("airflow.providers.fab", reason="FAB is not installed: scripts/setup_env.py --extra fab")
Answers = dict[str, Any]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What was asked -> status and body; see ``logins_of_fab``."""
    environment = {
        "AIRFLOW__CORE__AUTH_MANAGER": "inferbench_tasks.provider.auth.fab.AuthManager",
        "AIRFLOW__FAB__CONFIG_FILE": str(ROOT / "docker" / "compose" / "webserver_config.py"),
        "AIRFLOW__CORE__FERNET_KEY": "",
    }
    return answers_of("tests.integration.logins_of_fab", tmp_path_factory, environment)


def statuses(answers: Answers, step: str) -> dict[str, int]:
    """Of a step that each user tried."""
    return {login: answers[f"{step} {login}"]["status"] for login in ("ann", "bob", "vic", "root")}


def test_users_log_in_and_guesses_are_limited(answers: Answers) -> None:
    """Ten wrong passwords, then none is looked at; others log in meanwhile."""
    assert set(statuses(answers, "log in").values()) == {201}
    assert [answers[f"guess {number}"]["status"] for number in range(11)] == [401] * 10 + [429]
    assert answers["guess 10"]["retry"]
    assert answers["log in ann while others guess"]["status"] == 201
    assert answers["page ann"] == {"status": 302, "to": "/auth/"}
    by_page = [answers[f"page guess {number}"]["status"] for number in range(6)]
    assert by_page == [302] * 4 + [429] * 2, "of five tries within 40 s one was Ann's"


def test_each_role_may_what_it_may(answers: Answers) -> None:
    """All look; submitters and admins submit; who may start ``submit`` may neither pause it nor start others."""
    assert statuses(answers, "look") == {"ann": 200, "bob": 200, "vic": 200, "root": 200}
    assert answers["look nobody"]["status"] == 401
    assert statuses(answers, "submit") == {"ann": 202, "bob": 202, "vic": 403, "root": 202}
    assert statuses(answers, "pause") == {"ann": 403, "bob": 403, "vic": 403, "root": 200}
    assert statuses(answers, "connections") == {"ann": 403, "bob": 403, "vic": 403, "root": 200}
    assert answers["another DAG ann"]["status"] == 403


def test_only_named_operators_go_before_others(answers: Answers) -> None:
    """FAB's roles are not known where a submission is rendered: a priority counts for ``INFERBENCH_OPERATORS``."""
    assert answers["submit ann"]["body"]["priority"] == 0
    assert answers["submit root"]["body"]["priority"] == 90
    assert answers["submit ann"]["body"]["login"] == "ann"


def test_submitters_end_their_own(answers: Answers) -> None:
    """And nobody else's; an admin ends any."""
    assert {name: answers[f"end {name}"]["status"] for name in ("vic", "bob", "ann")} == {
        "vic": 403,
        "bob": 403,
        "ann": 202,
    }
    assert answers["end ann"]["states"]["submit"] == "failed"
    assert answers["end bob's as root"]["status"] == 202
