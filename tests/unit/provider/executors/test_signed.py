"""What the executor sends in a system that listens."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.errors import InputError

pytestmark = pytest.mark.airflow


def test_tasks_are_sent_under_the_signature_with_celery_s_id(tmp_path: Path) -> None:
    """The one of the metadata database where there is one: what opens it is the message that has this id."""
    from airflow.executors.workloads import ExecuteTask

    from inferbench_tasks.provider.executors.signed import send
    from inferbench_tasks.provider.joining.signing import SigningKey
    from inferbench_tasks.provider.joining.verifying import Verifier

    key = SigningKey.of(tmp_path)
    verifier = Verifier(key.public, "node:cpu", tmp_path / "begun")
    for known in ("6d2c0bb0-0000-4000-8000-000000000001", None):
        make: Any = ExecuteTask.model_construct
        workload = make(type="ExecuteTask", token="t", ti=SimpleNamespace(external_executor_id=known))
        # Of a task instance only this is used here, and what is sent of the workload.
        object.__setattr__(workload, "model_dump_json", lambda: '{"type": "ExecuteTask"}')
        ((name, sent, queue, team),) = send(key, [("key", workload, "node:cpu", None)], lambda tasks: tasks)
        assert (name, queue, team) == ("key", "node:cpu", None)
        assert known in (None, sent.ti.external_executor_id)
        assert (
            verifier.open(sent.model_dump_json(), sent.ti.external_executor_id) == '{"type": "ExecuteTask"}'
        )


def test_what_is_no_task_fails_at_once(tmp_path: Path) -> None:
    """Workers would refuse it, and it would wait for good."""
    from inferbench_tasks.provider.executors.signed import send
    from inferbench_tasks.provider.joining.signing import SigningKey

    callback: Any = SimpleNamespace(type="ExecuteCallback")
    ((name, _, result),) = send(
        SigningKey.of(tmp_path), [("key", callback, "host", None)], lambda tasks: tasks
    )
    assert name == "key" and isinstance(result.exception, InputError)
    assert "ExecuteCallback: in a system that listens" in str(result.exception)


def test_no_key_is_used_unless_the_system_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is made, either; and where workers were told another one, nothing starts."""
    from inferbench_tasks.provider.executors.signed import signing_key
    from inferbench_tasks.provider.joining.signing import PUBLIC, SigningKey

    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.delenv(PUBLIC, raising=False)
    assert signing_key() is None and not list(tmp_path.iterdir())
    monkeypatch.setenv(PUBLIC, SigningKey.of(tmp_path).public)
    assert signing_key() is not None
    monkeypatch.setenv(PUBLIC, "0" * 64)
    with pytest.raises(InputError, match="is not the key of the system"):
        signing_key()
