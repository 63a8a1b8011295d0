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
