"""What waits on a client host beside the first one: how its host was when it began, and which part it is told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.errors import LoadError
from inferbench_tasks.monitors.quiet import Look, Patience
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.senders import led_part, standby
from inferbench_tasks.stages.senders.away_load import of_further
from inferbench_tasks.stages.senders.far_watch import FarWatch

REACHED = FarWatch(address="192.0.2.2", port=1, secret="00", recording_path="")
LOUD = Patience(Look(25.0, 0.0), 60.0)


@pytest.mark.parametrize("patience", [LOUD, Patience(Look(0.1, 0.0), 0.0), None])
def test_a_second_host_that_was_not_quiet_is_told_by_its_name(
    patience: Patience | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the first one is, among the certificate's warnings; nothing is told of one that was, or of no look."""
    monkeypatch.setattr(standby, "quiet_machine", lambda *order: patience)
    monkeypatch.setattr(standby, "reached_address", lambda: "192.0.2.2")
    monkeypatch.setattr(standby, "Order", SimpleNamespace)
    monkeypatch.setattr(standby, "LoadInput", SimpleNamespace(model_validate=lambda order: order))
    monkeypatch.setattr("inferbench_tasks.stages.senders.far_senders.start", lambda *order: REACHED)
    monkeypatch.setattr("inferbench_tasks.loadgen.prepare.senders_here", lambda *order: 1)
    inp: Any = SimpleNamespace(
        serve=SimpleNamespace(far_further=(REACHED,)), number=1,
        job=SimpleNamespace(traffic=SimpleNamespace(wait_for_quiet_s=60.0), further_hosts=1),
        run_id="r", devices=(), model_dump=lambda **how: {},
    )  # fmt: skip
    told = standby.run(inp, Context(data_dir=tmp_path, base_dir=tmp_path))
    second: Any = SimpleNamespace(
        host="two",
        link=SimpleNamespace(after=None, reason="it was lost"),
        not_quiet=told.not_quiet,
    )
    lost, *more = of_further(second)
    assert lost == "two: the link was measured before the load only: it was lost"
    assert more == (
        [
            "two: the machine was not quiet when the load began, 60 s were waited for it: 5% of the waits for a core "
            "take 25.0 ms or more (quiet: 1 ms)"
        ]
        if patience is LOUD
        else []
    )


def test_each_of_several_is_told_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its part, its folder, and how long it may wait: for the quiet of those behind it and of the first host. A server
    that was started for fewer hosts is said to be so."""
    orders: list[Any] = []

    def start(run_id: str, folder: Path, servers_dir: Path, order: Any) -> FarWatch:
        orders.append(order)
        return REACHED

    monkeypatch.setattr(standby, "quiet_machine", lambda *order: None)
    monkeypatch.setattr(standby, "reached_address", lambda: "192.0.2.2")
    monkeypatch.setattr(standby, "Order", SimpleNamespace)
    monkeypatch.setattr(standby, "LoadInput", SimpleNamespace(model_validate=lambda order: order))
    monkeypatch.setattr("inferbench_tasks.stages.senders.far_senders.start", start)
    monkeypatch.setattr("inferbench_tasks.loadgen.prepare.senders_here", lambda *order: 1)
    inp: Any = SimpleNamespace(
        serve=SimpleNamespace(far_further=(REACHED, REACHED)), number=2,
        job=SimpleNamespace(traffic=SimpleNamespace(wait_for_quiet_s=60.0), further_hosts=2),
        run_id="r", devices=(), model_dump=lambda **how: {},
    )  # fmt: skip
    standby.run(inp, Context(data_dir=tmp_path, base_dir=tmp_path))
    (order,) = orders
    assert order.number == 2 and Path(order.folder).name == "third"
    assert order.patience_s == led_part.PATIENCE_S + 120
    inp.number = 3
    with pytest.raises(LoadError, match=r"started for a load of 3 client host\(s\); serve it again"):
        standby.run(inp, Context(data_dir=tmp_path, base_dir=tmp_path))
