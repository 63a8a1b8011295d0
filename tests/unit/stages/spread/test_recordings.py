"""Recordings of the hosts of replicas: sums where all are there, none where one is missing, and whose is what."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.metrics.base import ServerHost
from inferbench_tasks.monitors.records import EMPTY, Recording, Series
from inferbench_tasks.monitors.two_hosts import write
from inferbench_tasks.monitors.usage import usage
from inferbench_tasks.stages.spread.recordings import hosts_of, of_each_host, together

S = 1_000_000_000
AHEAD = 1000 * S
START, END = 2 * S, 10 * S


def recording(cores: float, bytes_: float, at_ns: int = 0, until_s: int = 12, **more: Series) -> Recording:
    """A host whose server used so many cores and so much memory, from ``at_ns`` on."""
    t_ns = np.arange(0, until_s * S, S // 10) + at_ns
    seconds = (t_ns - at_ns) / 1e9
    series = {
        ("server", "cpu_s_total"): Series(t_ns, seconds * cores),
        ("server", "cpu_cores"): Series(t_ns, np.full(len(t_ns), cores)),
        ("server", "rss_bytes"): Series(t_ns, np.full(len(t_ns), bytes_)),
        ("host", "cpu_busy_s_total"): Series(t_ns, seconds * 2 * cores),
        ("wait", "server_longest_s"): Series(t_ns, np.zeros(len(t_ns))),
        ("rapl", "package_j_total"): Series(t_ns, seconds * 50.0),
        ("client", "cpu_s_total"): Series(t_ns, seconds * 0.1),
        **{("balancer", name): one for name, one in more.items()},
    }
    return Recording(series, {"unavailable": {"gpu": "none"}})


def two(second: Recording, unwatched: str = "") -> tuple[ServerHost, ...]:
    return (
        ServerHost(1, "a", recording(1.0, 100.0), {"cores_logical": 4}),
        ServerHost(2, "b", second, {"cores_logical": 2}, unwatched),
    )


def test_what_the_servers_used_adds_up_over_hosts() -> None:
    """Counters and gauges are sums, whatever each had used before the window; each one's own stands beside them."""
    late = recording(0.5, 20.0)
    late.series["server", "cpu_s_total"] = Series(
        late.series["server", "cpu_s_total"].t_ns, late.series["server", "cpu_s_total"].values + 7.0
    )
    used = usage(together(two(late)), START, END)
    assert used["server"]["cpu_s_total"] == pytest.approx(8 * 1.5)
    assert used["server"]["cpu_cores"]["mean"] == pytest.approx(1.5)
    assert used["server"]["rss_bytes"]["max"] == pytest.approx(120.0)
    assert used["server"]["replica1_cpu_s_total"] == pytest.approx(8.0)
    assert used["server"]["replica2_cpu_s_total"] == pytest.approx(4.0)


def test_what_is_a_hosts_is_told_of_each_and_never_of_one_for_all() -> None:
    """Neither its CPU nor its waits nor its power stand where those of a run on one host do."""
    hosts = two(recording(0.5, 20.0))
    merged = together(hosts)
    assert merged.sources() == ["client", "server"]
    busy = of_each_host(hosts, START, END)
    assert busy["replica1_host"]["cpu_busy_s_total"] == pytest.approx(16.0)
    assert busy["replica2_host"]["cpu_busy_s_total"] == pytest.approx(8.0)


@pytest.mark.parametrize("second", [EMPTY, recording(0.5, 20.0, until_s=5)])
def test_where_one_is_not_known_there_is_no_sum(second: Recording) -> None:
    """The first one's share is not the whole; of one that was seen in a part only there is no figure either."""
    merged = together(two(second, "lost"))
    used = usage(merged, START, END)
    assert used["server"].get("cpu_s_total") is None
    assert (used["server"].get("cpu_cores") or {}).get("mean") is None
    assert used["server"]["replica1_cpu_s_total"] == pytest.approx(8.0)
    if second is EMPTY:
        assert "replica 2 (b)" in merged.about["unavailable"]["server"]
        assert merged.about["unavailable"]["gpu"] == "none"


def test_hosts_that_told_nothing_make_no_error() -> None:
    """No sum, no figure of any: and no division by nothing."""
    hosts = tuple(ServerHost(number, "x", EMPTY, {}) for number in (1, 2))
    assert usage(together(hosts), START, END).get("server") is None
    assert of_each_host(hosts, START, END) == {"replica1_host": None, "replica2_host": None}


def test_a_further_host_s_recording_is_put_on_the_load_s_clock(tmp_path: Path) -> None:
    """By what was found of it; where that is not known nothing of it counts, and it says why."""
    path = tmp_path / "replica-2-monitors.parquet"
    write(recording(0.5, 20.0, at_ns=AHEAD), path)
    here = SimpleNamespace(host="a")
    far = SimpleNamespace(replica=SimpleNamespace(number=2, host="b"), hardware={"cpu": "B"})
    served: Any = SimpleNamespace(replicas_here=(here,), far_replicas=(far,))
    for ahead_ns, unwatched in ((AHEAD, False), (None, True)):
        of: Any = SimpleNamespace(
            ahead_ns=ahead_ns, error_ns=None if unwatched else S // 1000, monitors_path=str(path)
        )
        first, second = hosts_of(served, (of,), recording(1.0, 100.0), {"cpu": "A"})
        assert (first.name, first.number, second.name, second.number) == ("a", 1, "b", 2)
        assert bool(second.unwatched) == unwatched and second.hardware == {"cpu": "B"}
        assert (second.recording == EMPTY) == unwatched
        total = usage(together((first, second)), START, END)["server"].get("cpu_s_total")
        assert total == (None if unwatched else pytest.approx(12.0))


def test_what_watching_cost_and_what_went_wrong_is_of_all_hosts() -> None:
    """The first one's cost is not the whole, and a sampler that ended on another host is told with its name."""
    both = two(recording(0.5, 20.0))
    both[0].recording.about.update(cpu_cores=0.02, problem=None)
    both[1].recording.about.update(cpu_cores=0.03, problem="the sampler ended", unavailable={"host": "none"})
    about = together(both).about
    assert about["cpu_cores"] == pytest.approx(0.05) and about["problem"] == "b: the sampler ended"
    assert about["unavailable"] == {"gpu": "none", "replica2_host": "none"}
    lost = together(two(EMPTY, "its clock is not known")).about
    assert lost["cpu_cores"] is None and lost["unavailable"]["replica2_host"] == "its clock is not known"


def test_a_gauge_that_nobody_saw_on_one_host_has_no_sum_over_it() -> None:
    """As on one host (``Series.covers``): what memory was in a gap is not what lies between its ends. A counter grew
    over it all the same."""
    gap = recording(0.5, 20.0)
    for name, one in list(gap.series.items()):
        seen = (one.t_ns <= 4 * S) | (one.t_ns >= 8 * S)
        gap.series[name] = Series(one.t_ns[seen], one.values[seen])
    used = usage(together(two(gap)), START, END)["server"]
    assert used["rss_bytes"]["max"] is None and used["cpu_s_total"] == pytest.approx(8 * 1.5)
    late = recording(0.5, 20.0)  # samples of others never fall on the same moments
    for name, one in list(late.series.items()):
        late.series[name] = Series(one.t_ns[::7] + 30_000_000, one.values[::7])
    used = usage(together(two(late)), START, END)["server"]
    assert used["rss_bytes"]["max"] == pytest.approx(120.0)
