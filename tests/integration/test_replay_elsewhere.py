"""``inferbench replay`` of what one process can't run again: refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.cli.main import main
from inferbench_tasks.cli.replay import require_this_machine
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.replay import submission_of
from tests.unit.analysis.builders import records, view

pytestmark = pytest.mark.integration
APART = {"serve__devices": 3, "serve__spread": "own_hosts"}


def result(**job: Any) -> Any:
    stored = view(records(5.0), "spread.000", job=job).result
    assert stored is not None
    return stored


def test_replicas_on_hosts_of_their_own_are_refused_before_anything_starts(
    perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 with the field, the stages and what such a run takes; no invocation is made."""
    perfdb.save_result(result(**APART))
    monkeypatch.setenv(settings.PERFDB_URI, perfdb.uri)
    monkeypatch.setenv(settings.DATA_DIR, str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(["replay", "spread.000"])
    said = " ".join(capsys.readouterr().err.split())
    assert ended.value.code == 2
    assert (
        "serve.spread" in said
        and "spread.000 can't be run again here: replica, replica_2 on other hosts" in said
    )
    assert "workers of 3 hosts" in said and "in place of `replay`" in said
    assert not list(tmp_path.glob("invocations/*"))


@pytest.mark.parametrize(
    ("job", "field", "words"),
    [
        (
            {"load__from": "other_host"},
            "load.from",
            "load on another host needs a system with workers of two hosts",
        ),
        ({"serve__devices": 8}, "serve.devices", "needs 8 devices with a core each; 2 core"),
    ],
)
def test_so_is_what_else_this_machine_has_not(
    job: dict[str, Any], field: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load from another host, more devices than cores."""
    monkeypatch.setattr("inferbench_tasks.running.cluster_abilities.usable_cores", lambda: 2)
    with pytest.raises(InputError, match=words) as refused:
        require_this_machine("r", submission_of(result(**job)))
    assert refused.value.field == field


def test_what_this_machine_can_run_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of one device."""
    monkeypatch.setattr("inferbench_tasks.running.cluster_abilities.usable_cores", lambda: 1)
    require_this_machine("r", submission_of(result()))
