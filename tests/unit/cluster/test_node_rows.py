"""A host in one line."""

from __future__ import annotations

import pytest

from inferbench_tasks.cluster.host import Gpu, Interface
from inferbench_tasks.cluster.node_rows import COLUMNS, ago, row
from inferbench_tasks.cluster.node_state import NodeLink, NodeState

KNOWN = NodeState(
    host="a", home="0" * 32, leader=True, state="serving", reason="", devices=["a.cpu-1", "a.gpu-0"],
    inferbench="1.0", python="3.12", protocol=1, cpu="Xeon", machine="x86_64", kernel="6", cores_physical=4,
    cores_logical=8, cores_usable=2, memory_bytes=16_000_000_000,
    gpus=[Gpu(uuid="GPU-1", index=0, name="T4", memory_bytes=15_000_000_000, driver="1")], gpus_unknown="",
    interfaces=[
        Interface(name="eth0", addresses=["10.0.0.1", "fe80::1"], speed_mbit_s=25_000, mtu_bytes=1500),
        Interface(name="eth1", addresses=["10.0.1.1"], speed_mbit_s=100, mtu_bytes=1500),
        Interface(name="wlan0", addresses=["10.0.2.1"], speed_mbit_s=None, mtu_bytes=1500),
    ],
    clock_ahead_s=-1.23456, clock_error_s=0.000321, clock_round_trip_s=0.0006, clock_age_s=12.4,
    measured_links=[
        NodeLink(
            to="b", address="10.0.0.2", round_trip_ms=0.2131, up_mbit_s=941.2, down_mbit_s=930.1, age_s=310,
        ),
        NodeLink(
            to="c", address="10.0.0.3", round_trip_ms=None, up_mbit_s=None, down_mbit_s=None, age_s=3 * 86_400,
        ),
    ],
    cache_fetched_bytes=1_250_000_000, cache_limit_bytes=50_000_000_000, disk_free_bytes=100_000_000_000,
)  # fmt: skip


def test_all_that_is_known_has_its_unit() -> None:
    """Versions, cores, memory, GPUs by UUID, links with speed, the clock with its error, the cache with its bound."""
    assert row(KNOWN) == {
        "host": "a (leader)", "state": "serving", "devices": "a.cpu-1, a.gpu-0",
        "versions": "InferBench 1.0, Python 3.12, protocol 1",
        "machine": "Xeon, 4 cores, 8 threads (2 usable), 16 GB", "gpus": "T4, 15 GB (GPU-1)",
        "links": "eth0 10.0.0.1, 25 Gbit/s; eth1 10.0.1.1, 100 Mbit/s; wlan0 10.0.2.1, speed not told",
        "measured": "to b 10.0.0.2, 0.213 ms, 941 Mbit/s there, 930 back, 5 min ago; to c 10.0.0.3, 3 days ago",
        "clock": "-1,234.56 ± 0.32 ms, 12 s ago", "cache": "1.25 of 50 GB fetched, 100 GB of the disk free",
        "reason": None,
    }  # fmt: skip


def test_a_clock_that_is_off_is_a_warning_with_the_remedy() -> None:
    """In seconds, where nobody overlooks it; what else is wrong with the host stands beside."""
    off = {"clock_ahead_s": 30.04, "clock_warning": "this host's clock is 30 s ahead", "reason": "old"}
    shown = row(KNOWN.model_copy(update=off))
    assert shown["clock"] == "WARNING +30.0 s, 12 s ago"
    assert shown["reason"] == "old; this host's clock is 30 s ahead"


def test_a_token_that_ends_soon_is_a_reason_to_act() -> None:
    """Beside what else is wrong with the host."""
    ends = {"reason": "old", "token_warning": "the token ends in 6 days"}
    assert row(KNOWN.model_copy(update=ends))["reason"] == "old; the token ends in 6 days"


@pytest.mark.parametrize(
    ("age_s", "text"),
    [(0.4, "0 s ago"), (119, "119 s ago"), (121, "2 min ago"), (7300, "2 h ago"), (172_801, "2 days ago")],
)
def test_an_age_is_told_in_its_unit(age_s: float, text: str) -> None:
    """The largest of which there are two."""
    assert ago(age_s) == text


def test_the_clusters_of_its_workers_stand_beside_its_devices() -> None:
    """By these names a load is asked to come from there."""
    assert row(KNOWN.model_copy(update={"clusters": ["lab", "rack-2"]}))["devices"] == (
        "a.cpu-1, a.gpu-0 (cluster lab, rack-2)"
    )


def test_what_was_not_told_is_no_zero() -> None:
    """A host of an earlier version: nothing stands where nothing is known."""
    names = [
        name for name in NodeState.model_fields if name not in ("host", "home", "state", "leader", "reason")
    ]
    empty: dict[str, object] = {
        "devices": [],
        "clusters": [],
        "gpus": [],
        "interfaces": [],
        "measured_links": [],
    }
    nothing = dict.fromkeys(names) | empty | {"gpus_unknown": "not said"}
    state = NodeState.model_validate(
        {**nothing, "host": "b", "home": "", "state": "gone", "leader": False, "reason": ""}
    )
    shown = row(state)
    assert (shown.pop("host"), shown.pop("state"), shown.pop("gpus")) == ("b", "gone", "not known: not said")
    assert set(shown.values()) == {None} and set(COLUMNS) == {*shown, "host", "state", "gpus"}
