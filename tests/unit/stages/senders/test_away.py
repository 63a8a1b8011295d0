"""A load from another host: what is refused, what its result's network is called, and where no secret stands."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.errors import LoadError
from inferbench_tasks.launchers.base import LOOPBACK
from inferbench_tasks.loadgen import controller, outcome
from inferbench_tasks.loadgen.controller import Applied
from inferbench_tasks.loadgen.outcome import Outcome
from inferbench_tasks.networks.links import measure, wire
from inferbench_tasks.networks.links.around import AroundLoad
from inferbench_tasks.networks.links.far_side import NO_MORE
from inferbench_tasks.networks.links.invitation import Invitation
from inferbench_tasks.networks.links.near_side import NearSide
from inferbench_tasks.perfdb.offered import offered
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.running import execute
from inferbench_tasks.stages import serve
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.collect import load_document
from inferbench_tasks.stages.senders import away_load, far_watch
from inferbench_tasks.stages.senders.handles import Away
from inferbench_tasks.submission.schema import JobSpec
from tests.far_side import listening

AWAY = {"arrivals": {"kind": "poisson", "rate_rps": 10}, "from": "other_host", "wait_for_quiet_s": 3600}


class Waits(Exception):
    """The load went on to wait for a quiet machine."""


def job(**load: Any) -> JobSpec:
    return JobSpec.model_validate(
        {"name": "x", "model": {"kind": "zoo", "name": "digits"}, "load": {**AWAY, **load}}
    )


def test_loads_over_different_links_are_different_loads() -> None:
    """Named by the client's host and the server's; of the same two hosts they are one. None is a load within a host,
    nor what earlier versions called by the client's host alone."""
    ways = ("from a to s", "from b to s", "from a to t", "from a to s", "from a")
    one, *others, same, before = (offered(load_document(job(), way)) for way in ways)
    assert one == same and one.endswith("network between hosts from a to s")
    assert len({one, *others, before, offered(load_document(job(**{"from": "server_host"})))}) == 5
    network = load_document(job(), "from a and b to s")["network"]
    assert parse(f"network='{network}'").filter == {"load.network": {"$eq": network}}


@pytest.mark.parametrize("led", ["a", "b"])
def test_the_way_of_a_load_has_the_server_s_host_last(led: str) -> None:
    """Those that sent in the order of their names, whichever led them; the server's could come before them by its."""
    (other,) = {"a", "b"} - {led}
    link = SimpleNamespace(before=SimpleNamespace(far=SimpleNamespace(host="Z")))
    fields: dict[str, Any] = {"host": led, "further": (SimpleNamespace(host=other),), "link": link}
    away = Away.model_construct(**fields)
    assert away.way == "from a and b to Z"


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What ``apply`` is given, without a load; ``Waits`` where it comes as far as waiting for a quiet machine."""

    def waits(*_: object) -> None:
        raise Waits

    monkeypatch.setattr(away_load, "plan_of", lambda *order: None)
    monkeypatch.setattr(away_load, "client_ceiling", lambda *order: None)
    monkeypatch.setattr(away_load, "quiet_machine", waits)
    return SimpleNamespace(
        job=job(),
        serve=SimpleNamespace(far=None),
        generate=None,
    )


def applied(
    order: SimpleNamespace, folder: Path, orders: Mapping[bytes, Callable[[], str]] = NO_MORE
) -> None:
    with listening(more=orders) as (far, _):
        order.serve.far = SimpleNamespace(invitation=far.invitation)
        away_load.apply(order, Context(data_dir=folder, base_dir=folder), folder, None)  # type: ignore[arg-type]


def test_another_data_directory_of_the_server_s_machine_is_no_other_host(
    order: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told before anything is waited for; by the kernel's boot id, which a test of one machine leaves out by name."""
    if not settings.boot_id():
        pytest.skip("this kernel tells no boot id")
    with pytest.raises(LoadError, match="server's own host: .* has its running kernel"):
        applied(order, tmp_path)
    monkeypatch.setenv(settings.ONE_MACHINE_AS_HOSTS, "1")
    assert settings.boot_id() == ""
    with pytest.raises(Waits):
        applied(order, tmp_path)


def test_of_a_load_that_failed_the_link_is_not_measured_again(
    order: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user is told at once, and whatever else of it still runs ends."""
    failed = Outcome(
        tmp_path / "samples.parquet", 0, 1, 0, 3, Applied(0, 0, (), (), problem="The third is gone")
    )
    monkeypatch.setenv(settings.ONE_MACHINE_AS_HOSTS, "1")
    monkeypatch.setattr(measure, "STREAM_S", 0.05)
    monkeypatch.setattr(measure, "MOST_QUESTIONS", 20)
    monkeypatch.setattr(away_load, "quiet_machine", lambda *order: None)
    monkeypatch.setattr(outcome, "apply_load", lambda *order, **more: failed)
    monkeypatch.setattr(AroundLoad, "ended", lambda around: pytest.fail("the link was measured again"))
    orders = dict.fromkeys((wire.BEGIN, wire.STATE, wire.END), lambda: "")
    with pytest.raises(LoadError, match="The third is gone\n3 records"):
        applied(order, tmp_path, orders)


def test_the_watch_waits_as_long_as_the_load_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a quiet machine, and the usual time beside it."""
    kept: list[far_watch.Order] = []
    monkeypatch.setattr(far_watch, "start", lambda run_id, folder, servers_dir, order: kept.append(order))
    server = ServerHandle(launcher="process", pid=1, started_ns=1, log_path="x", config_path="x")
    deployment: Any = SimpleNamespace(listens=LOOPBACK, folder=tmp_path)
    inp: Any = SimpleNamespace(job=job(), run_id="r")
    started: Any = SimpleNamespace(server=server, prepared=SimpleNamespace(drawn={"metrics_port": 8002}))
    serve._watch(inp, Context(data_dir=tmp_path, base_dir=tmp_path), deployment, started, tmp_path)
    (told,) = kept
    assert told.metrics_url == f"http://{LOOPBACK}:8002/metrics"
    assert told.patience_s == 3600 + far_watch.PATIENCE_S
    asked: list[float] = []

    class Far:
        invitation = Invitation.drawn(LOOPBACK, 1)

        def serve(self, patience_s: float, orders: object) -> None:
            asked.append(patience_s)

    far_watch.serve(told, Far())  # type: ignore[arg-type]
    assert asked == [told.patience_s]


def test_each_host_that_shares_a_load_has_a_listener_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the server, by its own name; one alone watches. All wait for as many hosts as wait for quiet in turn."""
    kept: list[far_watch.Order] = []
    monkeypatch.setattr(far_watch, "start", lambda run_id, folder, servers_dir, order: kept.append(order))
    server = ServerHandle(launcher="process", pid=1, started_ns=1, log_path="x", config_path="x")
    deployment: Any = SimpleNamespace(listens=LOOPBACK, folder=tmp_path)
    inp: Any = SimpleNamespace(job=job(client_hosts=3), run_id="r")
    started: Any = SimpleNamespace(server=server, prepared=SimpleNamespace(drawn={}))
    for number in range(3):
        context = Context(data_dir=tmp_path, base_dir=tmp_path)
        serve._watch(inp, context, deployment, started, tmp_path, number)
    assert [(Path(one.told_path).stem, one.watches) for one in kept] == [
        ("far-watch", True), ("far-link", False), ("far-link_2", False),
    ]  # fmt: skip
    assert {one.patience_s for one in kept} == {3 * 3600 + far_watch.PATIENCE_S}


def test_a_watch_that_is_not_reached_is_called_what_it_is() -> None:
    """Nobody typed a command for it."""
    with listening(0.1) as (far, ends):
        pass
    assert ends == [None]
    with (
        pytest.raises(LoadError, match="is the watch that `serve` started") as raised,
        NearSide(far.invitation, listener=away_load.LISTENER),
    ):
        pass
    assert "links listen" not in str(raised.value)


def test_secrets_are_in_no_file_that_others_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a stage leaves in its folder has none, a representation has none, and the senders' orders are their
    owner's alone."""
    watch = far_watch.FarWatch(address=LOOPBACK, port=1, secret="ab" * 32, recording_path="r.parquet")
    assert watch.secret not in repr(watch)
    kept = json.loads(execute._to_keep(watch, without=True))
    assert kept == {"address": LOOPBACK, "port": 1, "recording_path": "r.parquet"}
    assert execute._to_keep(watch, without=False) == watch.model_dump_json(indent=1)
    plan: Any = SimpleNamespace(
        folder=tmp_path,
        path=tmp_path / "plan.json",
        own=(),
        shards=0,
        spool_path=str,
        segments=[SimpleNamespace(paced=True)],
        connections_asked=None,
        model_dump_json=lambda: "{}",
    )
    monkeypatch.setattr(controller.Controller, "_wait_ready", lambda self: False)
    controller.Controller(plan, progress=lambda *_: None, cancelled=lambda: False).apply()
    assert stat.S_IMODE(plan.path.stat().st_mode) == 0o600 and plan.path.read_text() == "{}"
