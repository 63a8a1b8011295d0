"""The ledger of a load from another host: both hosts are asked, and neither's word stands for the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.base import ClientHost, Measured
from inferbench_tasks.metrics.interference import OWN_CLOCKS, Interference, reasons
from inferbench_tasks.metrics.quiet import Quiet
from inferbench_tasks.monitors.records import EMPTY, Recording, Series
from inferbench_tasks.monitors.two_hosts import without_server
from tests.samples import samples_table

S, MS = 1_000_000_000, 1_000_000
END = 11
HARDWARE: dict[str, Any] = {"cores_logical": 2, "cores_allowed": [0, 1]}


def window() -> Window:
    intended = np.arange(S, END * S, 10 * MS)
    late = np.where(np.arange(len(intended)) % 4 == 0, 8 * MS, 0)  # what waits of 8 ms do to some
    table = samples_table({"intended_ns": intended, "sent_ns": intended, "done_ns": intended + 5 * MS + late})
    return Window.of(table, S, END * S)


def host(side: str, busy_cores: float, own_cores: float, wait_ms: float = 0.0, **more: float) -> Recording:
    """A host that used so much of two cores, of which so much was the server's or the load's."""
    t_ns = np.arange(0, (END + 1) * S, 40 * MS)
    seconds = t_ns / 1e9
    name = "server" if side == "server" else "client"
    group = "server" if side == "server" else "sender"
    series = {
        ("host", "cpu_busy_s_total"): seconds * busy_cores,
        ("host", "cpu_steal_s_total"): seconds * more.get("steal_cores", 0.0),
        (name, "cpu_s_total"): seconds * own_cores,
        (name, "waited_s_total"): seconds * 0.0,
        ("wait", f"{group}_longest_s"): np.full(len(t_ns), wait_ms / 1e3),
        ("wait", f"{group}_s_total"): seconds * 0.0,
        ("wait", "sender_runs_total"): seconds * 100,
    }
    if side == "server":
        series["client", "cpu_s_total"] = seconds * 0.01  # what watches there
        del series["wait", "sender_runs_total"]
    found = Recording({key: Series(t_ns, values) for key, values in series.items()}, {"side": side})
    return found if side == "server" else without_server(found)


def ledger(server: Recording, client: Recording, unwatched: str = "") -> dict[str, Any]:
    of = ClientHost(client, HARDWARE, unwatched)
    return Interference().compute(Measured(window(), server, {}, HARDWARE, client=of))


def test_two_quiet_hosts_have_nothing_against_them() -> None:
    """Both were watched, though neither has what the other has."""
    found = ledger(host("server", 0.5, 0.49), host("client", 0.3, 0.3))
    assert found["watched"] and found["findings"] == [] and reasons(found) == []
    assert found["waits_ms"] is None and found["sender"] is not None
    assert found["waits_reason"] == OWN_CLOCKS


@pytest.mark.parametrize("side", ["server", "client"])
def test_what_disturbs_either_disturbs_the_run(side: str) -> None:
    """And is told with the host; the other one's use of the CPU is nobody's there."""
    noisy = {"busy_cores": 1.5, "own_cores": 0.3, "wait_ms": 8.0}
    calm = {"busy_cores": 0.3, "own_cores": 0.29}
    found = ledger(
        host("server", **(noisy if side == "server" else calm)),
        host("client", **(noisy if side == "client" else calm)),
    )
    assert {finding["host"] for finding in found["findings"]} == {side}
    assert any(f"on the {side}'s host: " in reason.text for reason in reasons(found))


def test_a_host_s_own_load_is_not_foreign_to_it() -> None:
    """The server uses its host alone, the senders theirs: 1.5 cores each and nothing is foreign."""
    found = ledger(host("server", 1.5, 1.48), host("client", 1.5, 1.5))
    assert [finding["kind"] for finding in found["findings"]] == []


@pytest.mark.parametrize(
    ("server", "unwatched"), [(EMPTY, ""), (host("server", 0.5, 0.49), "the link was lost")]
)
def test_a_host_that_nobody_watched_disturbs_the_run(server: Recording, unwatched: str) -> None:
    """What was recorded before a link was lost does not speak for the rest; nor does the other host."""
    found = ledger(server, host("client", 0.3, 0.3), unwatched)
    assert not found["watched"] and [reason.check for reason in reasons(found)] == ["unwatched"]


def test_quiet_windows_are_not_cut_by_two_clocks() -> None:
    """The reason stands where they would."""
    of = ClientHost(host("client", 0.3, 0.3), HARDWARE)
    block = Quiet().compute(Measured(window(), host("server", 0.5, 0.49), {}, HARDWARE, client=of))
    assert block["latency_ms"] is None and "two clocks" in block["reason"]


def shared(wait_ms: tuple[float, float], busy_cores: float = 0.32) -> dict[str, Any]:
    """Two client hosts sent half of the requests each, of which a quarter is late; what waits for a core there were."""
    of = window()
    shard = np.arange(len(of.ok)) // 4 % 2
    table = samples_table(
        {"intended_ns": of.intended_ns, "sent_ns": of.sent_ns, "done_ns": of.done_ns, "shard": shard}
    )
    one, two = (host("client", busy_cores, 0.3, wait) for wait in wait_ms)
    second = ClientHost(two, HARDWARE, shards=(0,))
    client = ClientHost(one, HARDWARE, shards=(1,), further=(second,))
    server = host("server", 0.5, 0.49)
    return Interference().compute(Measured(Window.of(table, S, END * S), server, {}, HARDWARE, client=client))


def test_each_host_that_sends_has_a_ledger_of_its_own_requests() -> None:
    """Who disturbs the second one disturbs the run, and is told with that host."""
    found = shared((0.0, 0.0))
    assert set(found["hosts"]) == {"server", "client", "second client"}
    assert found["watched"] and not found["findings"] and found["sender"] is not None
    busy = shared((0.0, 8.0), busy_cores=1.5)
    assert {f["host"] for f in busy["findings"] if f["quarantine"]} == {"second client"}
    assert any("on the second client's host: " in reason.text for reason in reasons(busy))


def test_a_late_load_is_the_machines_doing_only_as_far_as_both_waited() -> None:
    """A host that was late by itself is not excused by the other one's wait for a core; 80% of the CPU was others'."""
    both, alone = (shared(waits, 1.5)["sender"] for waits in ((6.0, 9.0), (0.0, 9.0)))
    assert both is not None and both["longest_ms"] == pytest.approx(0.8 * 6.0) and alone is not None
    assert alone["longest_ms"] == 0.0
