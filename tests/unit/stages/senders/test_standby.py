"""What waits on the second of two client hosts: how its host was when it began to wait."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.monitors.quiet import Look, Patience
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.senders import standby
from inferbench_tasks.stages.senders.away_load import of_second
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
        serve=SimpleNamespace(far_second=REACHED),
        job=SimpleNamespace(traffic=SimpleNamespace(wait_for_quiet_s=60.0)),
        run_id="r", devices=(), model_dump=lambda **how: {},
    )  # fmt: skip
    told = standby.run(inp, Context(data_dir=tmp_path, base_dir=tmp_path))
    second: Any = SimpleNamespace(
        host="two",
        link=SimpleNamespace(after=None, reason="it was lost"),
        not_quiet=told.not_quiet,
    )
    lost, *more = of_second(second)
    assert lost == "two: the link was measured before the load only: it was lost"
    assert more == (
        [
            "two: the machine was not quiet when the load began, 60 s were waited for it: 5% of the waits for a core "
            "take 25.0 ms or more (quiet: 1 ms)"
        ]
        if patience is LOUD
        else []
    )
