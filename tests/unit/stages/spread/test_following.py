"""What asks replicas of other hosts while nobody follows them: a host that is gone is no failure of the job."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.errors import InputError, LoadError, StageError
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.spread import following
from inferbench_tasks.stages.spread.following import lease_awaited

FAR: Any = SimpleNamespace(
    watch=SimpleNamespace(invitation=SimpleNamespace(address="192.0.2.1", port=1)),
    replica=SimpleNamespace(device_id="far.cpu"),
)


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What PerfDB says of the device's lease, once each; nothing more afterwards."""
    told = [7, 7, 7]
    monkeypatch.setattr(following, "token_of", lambda device, folder: told.pop() if told else None)
    monkeypatch.setattr(following, "_LOOK_S", 0.01)
    return told


@pytest.mark.parametrize("failure", [LoadError, StageError])
def test_what_fails_waits_until_the_lease_is_lost(
    tokens: list[int], failure: type[StageError], tmp_path: Path
) -> None:
    """By then the job is run again; the failure itself stays what it was."""
    with (
        pytest.raises(failure, match="no answer"),
        lease_awaited((FAR,), Context(data_dir=tmp_path, base_dir=tmp_path)),
    ):
        raise failure("no answer")
    assert tokens == []


def test_nobody_waits_without_other_hosts_nor_for_what_the_user_asked(
    tokens: list[int], tmp_path: Path
) -> None:
    """Neither for one host's replicas, nor for bad input, nor once the run is cancelled, nor where all is well."""
    ctx = Context(data_dir=tmp_path, base_dir=tmp_path)
    with pytest.raises(LoadError), lease_awaited((), ctx):
        raise LoadError("no answer")
    assert tokens == [7, 7, 7]
    with pytest.raises(InputError), lease_awaited((FAR,), ctx):
        raise InputError("wrong")
    with lease_awaited((FAR,), ctx):
        pass
    cancelled = Context(data_dir=tmp_path, base_dir=tmp_path, cancelled=lambda: True)
    with pytest.raises(LoadError), lease_awaited((FAR,), cancelled):
        raise LoadError("no answer")
    assert tokens == []
