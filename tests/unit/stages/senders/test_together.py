"""What the leading host makes of those that share the load with it, before it connects to any."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.errors import LoadError
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.load_order import Input
from inferbench_tasks.stages.senders import away_load
from inferbench_tasks.stages.senders.far_watch import FarWatch
from inferbench_tasks.stages.senders.handles import Standby
from inferbench_tasks.stages.senders.together import Together, names_of
from tests.load_servers import endpoint, load_plan


def waiting(host: str, address: str = "192.0.2.1", senders: int = 1) -> Standby:
    reached = FarWatch(address=address, port=1, secret="00", recording_path="")
    return Standby(reached=reached, host=host, senders=senders)


def test_hosts_of_one_name_are_told_apart_by_their_addresses() -> None:
    """Of two that are called alike neither stands alone for the name; the leading one keeps its own."""
    two = [waiting("b", "192.0.2.2"), waiting("c", "192.0.2.3")]
    assert names_of("a", two) == ["b", "c"]
    alike = [waiting("a", "192.0.2.2"), waiting("b", "192.0.2.3"), waiting("b", "192.0.2.4")]
    assert names_of("a", alike) == ["a (192.0.2.2)", "b (192.0.2.3)", "b (192.0.2.4)"]


def test_each_has_a_part_of_its_own(tmp_path: Path) -> None:
    """In the order in which they wait; the first part is the leading host's."""
    plan = load_plan(tmp_path, endpoint("http", 1), arrivals={"kind": "poisson", "rate_rps": 50}, shards=6)
    together = Together([waiting("b"), waiting("c")], plan)
    assert [*together.plan.own] == [0, 3]
    assert [(host.name, [*host.shards]) for host in together.led] == [("b", [1, 4]), ("c", [2, 5])]
    assert [one.name for one in together.senders][1:] == ["b", "c"]
    assert together.led[1].said("no").startswith("The third client host, c: ")


def order(hosts: int, *standbys: Standby) -> Any:
    given: dict[str, Any] = {f"standby_{n}" if n > 1 else "standby": one for n, one in enumerate(standbys, 1)}
    inp = Input.model_construct(**given)
    object.__setattr__(inp, "job", SimpleNamespace(shared_load=hosts, traffic=None))
    return inp


def test_the_load_has_as_many_senders_as_its_smallest_host_takes_part_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On each host; without one of the hosts there is no load."""
    asked: list[int] = []

    def plan_of(inp: object, ctx: object, folder: Path, where: object, shards: int) -> Any:
        asked.append(shards)
        arrivals = {"kind": "poisson", "rate_rps": 50}
        return load_plan(tmp_path, endpoint("http", 1), arrivals=arrivals, shards=shards)

    monkeypatch.setattr(away_load, "plan_of", plan_of)
    monkeypatch.setattr("inferbench_tasks.loadgen.prepare.senders_here", lambda *order: 4)
    context = Context(data_dir=tmp_path, base_dir=tmp_path)
    where: Any = None
    _, beside = away_load._planned(
        order(3, waiting("b", senders=3), waiting("c", senders=2)), context, tmp_path, where
    )
    assert asked == [6] and beside is not None and len(beside.led) == 2
    with pytest.raises(LoadError, match="1 client hosts wait beside this one, the load is of 3"):
        away_load._planned(order(3, waiting("b")), context, tmp_path, where)
