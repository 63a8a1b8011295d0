"""The table of the network between two hosts, and the second host's facts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from inferbench_tasks.training.report.hosts import links, second


def view(**extensions: Any) -> Any:
    return SimpleNamespace(label="r", result=SimpleNamespace(extensions=extensions))


HOSTS = [{"host": "a"}, {"host": "b", "cores": 2.0, "hardware": {}, "system": {}, "versions": {"torch": "2"}}]


def test_a_run_on_two_hosts_has_its_link_before_and_after() -> None:
    """Round trips, rates by direction, and how far moments may be misplaced; what was not measured is a dash."""
    before = {"round_trip": {"p50_ms": 0.25}, "up_mbit_s": 93.0, "down_mbit_s": 94.0}
    after = {"round_trip": {"p50_ms": 0.5}, "up_mbit_s": 91.0, "down_mbit_s": 92.0}
    whole = view(hosts=HOSTS, link={"before": before, "after": after}, hosts_clock={"error_ns": 1_500_000})
    lost = view(hosts=HOSTS, link={"before": before, "after": None}, hosts_clock={"error_ns": None})
    (table,) = links([whole, view(), lost])
    assert table["rows"] == [
        ["r", "a and b", "0.25", "0.5", "93", "91", "94", "92", "1.5"],
        ["r", "a and b", "0.25", "–", "93", "–", "94", "–", "–"],
    ]
    assert len(table["head"]) == 9 and links([view()]) == []


def test_the_second_host_has_its_facts() -> None:
    """Those of the first are the run's own."""
    assert second({"hosts": HOSTS})["second host"]["versions"] == {"torch": "2"} and second({}) == {}
