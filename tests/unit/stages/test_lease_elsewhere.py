"""What works with other hosts of the job: a host that is gone is no failure of the job."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.errors import InputError, LoadError, PerfDBError, StageError
from inferbench_tasks.stages import lease_elsewhere, load
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.lease_elsewhere import lease_awaited
from inferbench_tasks.stages.senders.far_watch import FarWatch
from inferbench_tasks.stages.senders.handles import Standby

FAR = ["far.cpu"]


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What PerfDB says of the device's lease, once each; nothing more afterwards."""
    told = [7, 7, 7]
    monkeypatch.setattr(lease_elsewhere, "token_of", lambda device, folder: told.pop() if told else None)
    monkeypatch.setattr(lease_elsewhere, "_LOOK_S", 0.01)
    return told


@pytest.mark.parametrize("failure", [LoadError, StageError])
def test_what_fails_waits_until_the_lease_is_lost(
    tokens: list[int], failure: type[StageError], tmp_path: Path
) -> None:
    """By then the job is run again; the failure itself stays what it was."""
    with (
        pytest.raises(failure, match="no answer"),
        lease_awaited(FAR, Context(data_dir=tmp_path, base_dir=tmp_path)),
    ):
        raise failure("no answer")
    assert tokens == []


def test_nobody_waits_without_other_hosts_nor_for_what_the_user_asked(
    tokens: list[int], tmp_path: Path
) -> None:
    """Neither for one host's job, nor where nobody leases, nor for bad input, nor once the run is cancelled, nor where
    all is well."""
    ctx = Context(data_dir=tmp_path, base_dir=tmp_path)
    for nobody in ([], [""]):
        with pytest.raises(LoadError), lease_awaited(nobody, ctx):
            raise LoadError("no answer")
    assert tokens == [7, 7, 7]
    with pytest.raises(InputError), lease_awaited(FAR, ctx):
        raise InputError("wrong")
    with lease_awaited(FAR, ctx):
        pass
    cancelled = Context(data_dir=tmp_path, base_dir=tmp_path, cancelled=lambda: True)
    with pytest.raises(LoadError), lease_awaited(FAR, cancelled):
        raise LoadError("no answer")
    assert tokens == []


def test_a_perfdb_that_is_away_tells_of_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked again until it tells, or the time for it is over."""
    told: list[int | None] = [7, None]

    def token(device: str, folder: Path) -> int | None:
        said = told.pop(0) if told else 7
        if said is None:
            raise PerfDBError("away")
        return said

    monkeypatch.setattr(lease_elsewhere, "token_of", token)
    monkeypatch.setattr(lease_elsewhere, "_LOOK_S", 0.01)
    monkeypatch.setattr(lease_elsewhere, "_LEASE_S", 0.2)
    ctx = Context(data_dir=tmp_path, base_dir=tmp_path)
    with pytest.raises(LoadError, match="no answer"), lease_awaited(FAR, ctx):
        raise LoadError("no answer")
    assert told == []


def test_a_load_asks_for_the_devices_of_all_hosts_that_share_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them goes amid the load: it fails once one of their devices is known to be lost."""
    asked: list[str] = []

    def token(device: str, folder: Path) -> int | None:
        asked.append(device)
        return None if len(asked) > 4 else 7

    def fails(*order: object) -> None:
        raise LoadError("the link to the third was lost")

    monkeypatch.setattr(lease_elsewhere, "token_of", token)
    monkeypatch.setattr(lease_elsewhere, "_LOOK_S", 0.01)
    monkeypatch.setattr("inferbench_tasks.stages.senders.away_load.apply", fails)
    reached = FarWatch(address="192.0.2.2", port=1, secret="00", recording_path="")
    waiting = tuple(
        Standby(reached=reached, host=name, senders=1, device_id=f"{name}.cpu") for name in ("two", "three")
    )
    inp: Any = SimpleNamespace(
        balance=None, run_id="r", standing_by=waiting, serve=SimpleNamespace(endpoint=None),
        job=SimpleNamespace(traffic=SimpleNamespace(network="lan", seed=0, away=True, transport="network")),
    )  # fmt: skip
    with pytest.raises(LoadError, match="the third was lost"):
        load.run(inp, Context(data_dir=tmp_path, base_dir=tmp_path))
    assert asked[:2] == ["two.cpu", "three.cpu"] and len(asked) > 4
