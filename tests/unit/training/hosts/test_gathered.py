"""What is made of two hosts' parts whose clocks are 1,000 s apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.errors import InputError
from inferbench_tasks.metrics import interference
from inferbench_tasks.metrics.interference import MODE
from inferbench_tasks.monitors.records import Recording, Series
from inferbench_tasks.training import certificate, step_spans, steps
from inferbench_tasks.training.hosts import gathered
from inferbench_tasks.training.hosts.facts import HostFacts
from inferbench_tasks.training.hosts.gathered import OfHost
from inferbench_tasks.training.order import Answer, MemoryGrown
from tests.unit.training.epochs import JOB, MS, SECOND_NS, STEP_MS, answer, used

AHEAD_S = 1000.0
EPOCHS = [(float(2 * at), 2.0 * at + 1.5) for at in range(6)]


@pytest.fixture(autouse=True)
def _judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MODE, raising=False)


def recording(busy: float, begins_s: float = 0.0) -> Recording:
    """``busy`` cores in use in each of 12 seconds from there on."""
    t_ns = ((np.arange(13) + begins_s) * SECOND_NS).astype(np.int64)
    rates = {
        ("host", "cpu_busy_s_total"): busy,
        ("host", "cpu_steal_s_total"): 0.0,
        ("client", "cpu_s_total"): 0.0,
    }
    return Recording({name: Series(t_ns, np.arange(13) * rate) for name, rate in rates.items()}, {})


def host(
    node: int, answers: Sequence[Answer], seen: Recording, cores: float | None = 2.0, torch: str = "2"
) -> OfHost:
    for one in answers:
        one.versions["torch"] = torch
    facts = HostFacts(host=f"h{node}", hardware={"cores_logical": 2}, system={}, versions={}, cores=cores)
    return OfHost(node, facts, answers, seen, Path("m"))


def two(busy_there: float = 0.9, wait_there: float = 0.0) -> list[OfHost]:
    """The first host's clock is ahead by 1,000 s; the second one is ``busy_there``, and its rank waits so much."""
    ahead = [(start + AHEAD_S, end + AHEAD_S) for start, end in EPOCHS]
    return [
        host(0, [used(ahead, 0.9, 0.0, rank=0)], recording(0.9, AHEAD_S)),
        host(1, [used(EPOCHS, 0.6 if wait_there else 0.9, wait_there, rank=1)], recording(busy_there)),
    ]


def test_each_host_is_judged_by_its_own_clock() -> None:
    """Both are watched over their own windows; nothing of the one is sought at the other's times."""
    hosts = two()
    ledger = gathered.ledger(hosts, JOB)
    assert ledger["watched"] and [one["watched"] for one in ledger["hosts"]] == [True, True]
    assert [one["host"] for one in ledger["hosts"]] == ["host 0 (h0)", "host 1 (h1)"] and ledger[
        "findings"
    ] == []
    windows_s = [[round(at / SECOND_NS, 3) for at in one.window()] for one in hosts]
    assert windows_s == [[1000.0, 1011.5], [0.0, 11.5]]


def test_who_disturbs_one_host_disturbs_the_run() -> None:
    """With that host's name; the other's ledger is as it is alone."""
    hosts = two(busy_there=2.0, wait_there=0.4)
    ledger = gathered.ledger(hosts, JOB)
    verdict = str(Verdict.judged(interference.reasons(ledger)))
    assert verdict.startswith("disturbed: on host 1 (h1): the run's processes lost 40%")
    assert {finding["host"] for finding in ledger["findings"]} == {"host 1 (h1)"}
    assert ledger["hosts"][0] == {"host": "host 0 (h0)", **hosts[0].ledger(JOB)}


def test_a_host_that_nobody_watched_makes_the_run_count_for_nothing() -> None:
    """Whatever is known of the other."""
    hosts = two()
    hosts[1] = host(1, hosts[1].answers, Recording({}, {}))
    ledger = gathered.ledger(hosts, JOB)
    assert not ledger["watched"] and "foreign CPU on host 1 (h1)" in ledger["not_watched"]
    assert not Verdict.judged(interference.reasons(ledger)).valid


def test_one_host_has_the_ledger_that_it_ever_had() -> None:
    """Without a word of hosts."""
    (one,) = two()[:1]
    assert gathered.ledger([one], JOB) == one.ledger(JOB) and "hosts" not in gathered.ledger([one], JOB)


def test_memory_is_that_of_the_host_which_it_held_up_more() -> None:
    """Not a mean, in which a host that swaps would vanish; of one host nothing is added."""
    hosts = [host(node, [answer(node)], Recording({}, {})) for node in (0, 1)]
    for at, stalled_s in enumerate((0.0, 0.06)):
        for epoch in hosts[at].answers[0].epochs:
            epoch.memory = MemoryGrown(major_faults=at, stalled_s=stalled_s, scope="machine")
    worst, alone = gathered.memory(hosts), gathered.memory(hosts[:1])
    assert worst is not None and worst["host"] == "host 1 (h1)" and worst["stalled_ratio"] > 0
    assert alone == hosts[0].memory() and alone is not None and "host" not in alone
    hosts[0].answers[0].epochs[0].memory = None
    for epoch in hosts[0].answers[0].epochs:
        epoch.memory = None
    assert gathered.memory(hosts) is None


def test_another_torch_on_each_host_is_against_the_run() -> None:
    """The result says one version."""
    same = [host(node, [answer(node)], Recording({}, {})) for node in (0, 1)]
    assert gathered.unlike(same) == []
    other = [same[0], host(1, [answer(1)], Recording({}, {}), torch="3")]
    (reason,) = gathered.unlike(other)
    assert reason.check == "same_versions" and "2 on host 0 (h0), 3 on host 1 (h1)" in reason.text
    assert not certificate.verdict_of({"reasons": [reason.model_dump(exclude_none=True)]}).valid


def test_names_and_cores_of_unlike_hosts() -> None:
    """Both names; as many cores of each as the poorer one has, which the other waits for."""
    assert gathered.device_name(["a", "a"]) == "a" and gathered.device_name(["a", "b"]) == "a and b"
    assert gathered.device_name([None]) is None and gathered.device_name(["a", None]) == "a and unknown"
    hosts = [host(0, [answer(0)], Recording({}, {}), 8), host(1, [answer(1)], Recording({}, {}), 2)]
    assert gathered.cores(hosts) == 4 and gathered.cores(hosts[:1]) == 8
    hosts[1] = host(1, [answer(1)], Recording({}, {}), None)
    assert gathered.cores(hosts) is None

    def held(cluster: str) -> HeldDevice:
        return HeldDevice(device_id="d", device_type="cpu", host="h", cluster=cluster)

    assert (
        gathered.cluster([held("a"), held("b")]) == "a + b"
        and gathered.cluster([held("a"), held("a")]) == "a"
    )
    assert gathered.cluster([held(""), held("")]) is None


def exchanges(ahead_ns: int, trip_ns: int, at: Sequence[int]) -> tuple[tuple[int, int, int, int], ...]:
    middle = trip_ns // 2
    return tuple((t, t + middle + ahead_ns, t + middle + ahead_ns, t + trip_ns) for t in at)


def test_the_clocks_are_told_with_a_bound() -> None:
    """1 ms there and back leaves 0.5 ms, and what two clocks may drift between questions; or why nobody knows."""
    ahead_ns = int(AHEAD_S * SECOND_NS)
    asked: Any = SimpleNamespace(exchanges=exchanges(ahead_ns, MS, [0, SECOND_NS, 2 * SECOND_NS]))
    clock = gathered.clock(asked, (MS, 2 * SECOND_NS))
    assert abs(clock["ahead_ns"] - ahead_ns) <= clock["error_ns"] < 2 * MS and clock["reason"] == ""
    moved = (*exchanges(ahead_ns, MS, [0]), *exchanges(0, MS, [SECOND_NS]))
    asked = SimpleNamespace(exchanges=moved)
    assert gathered.clock(asked, (0, SECOND_NS)) == {
        "ahead_ns": None, "error_ns": None, "reason": gathered.UNTOLD_CLOCK,
    }  # fmt: skip


def shown(ahead_ns: int | None) -> Any:
    hosts = [{"host": "a", "ranks": [0]}, {"host": "b", "ranks": [1]}]
    clock = {
        "ahead_ns": ahead_ns,
        "error_ns": 1000,
        "reason": gathered.UNTOLD_CLOCK if ahead_ns is None else "",
    }
    return SimpleNamespace(run_id="x-1.000", extensions={"hosts": hosts, "hosts_clock": clock})


def test_steps_of_two_hosts_are_put_on_one_clock_in_traces(tmp_path: Path) -> None:
    """A step over both ranks lasts as long as it did, not 1,000 s; durations are what they were."""
    ahead_ns = int(AHEAD_S * SECOND_NS)
    path = tmp_path / "steps.parquet"
    steps.write([answer(0), answer(1)], path)
    rows = steps.table([answer(0), answer(1)]).to_pylist()
    for row in rows:
        if row["rank"] == 0:
            row |= {name: value + ahead_ns for name, value in row.items() if name.endswith("_start_ns")}
    moved = list(step_spans.spans("x-1.000", rows, 0, step_spans.ahead_of(shown(ahead_ns))))
    whole = [span for span in moved if span.parent == -1]
    assert {span.duration_ns for span in whole} == {STEP_MS * MS}
    assert {span.start_ns for span in moved if span.name == "rank 1"} == {ahead_ns}
    unmoved = [span for span in step_spans.spans("x-1.000", rows) if span.parent == -1]
    assert max(span.duration_ns for span in unmoved) > ahead_ns
    assert step_spans.ahead_of(SimpleNamespace(run_id="x", extensions={})) == {}  # type: ignore[arg-type]
    with pytest.raises(InputError, match="of two hosts and can't be set beside each other: the clocks"):
        step_spans.ahead_of(shown(None))
