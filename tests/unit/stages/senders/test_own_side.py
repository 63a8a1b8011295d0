"""What a host that sends hands on of its exchanges with the server's host, however long the load was."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any

import bson
import pytest

from inferbench_tasks.contracts.link import LinkAround, LinkClock, LinkEnd, MeasuredLink, RoundTrips
from inferbench_tasks.contracts.sending_hosts import ORDINALS
from inferbench_tasks.monitors import two_hosts
from inferbench_tasks.stages.senders.handles import EVERY_S, MOST_EXCHANGES, Away, FurtherHost
from inferbench_tasks.stages.senders.own_side import OwnSide
from inferbench_tasks.timing.two_clocks import Exchange

MS, S, DAY_S = 1_000_000, 1_000_000_000, 86_400
#: The clocks of hosts that run for a year.
NOW, AHEAD = 365 * DAY_S * S, 100 * DAY_S * S
END = LinkEnd(host="one", home="h", address="192.0.2.1")
LINK = LinkAround(
    before=MeasuredLink(
        near=END,
        far=END,
        measured_at="2026-01-01T00:00:00Z",
        round_trip=RoundTrips.of([MS]),
        up_mbit_s=None,
        down_mbit_s=None,
        clock=LinkClock(ahead_s=None, error_s=None, reason="nobody asked"),
    ),
    after=None,
)


def exchanges(start_ns: int, count: int) -> list[Exchange]:
    """One each ``EVERY_S``; each way takes 0.1 ms and up to a millisecond more."""
    rng, made = random.Random(7), []
    for at in range(count):
        sent_ns = start_ns + round(at * EVERY_S * S)
        arrived_ns, back_ns = (100_000 + rng.randrange(MS) for _ in range(2))
        far_ns = sent_ns + arrived_ns + AHEAD
        made.append(Exchange(sent_ns, far_ns, far_ns + 5_000, sent_ns + arrived_ns + 5_000 + back_ns))
    return made


def side(seconds: float) -> tuple[OwnSide, list[Exchange]]:
    """Of a load that has been: with its exchanges, 200 of them from before it."""
    own: Any = OwnSide(SimpleNamespace(), END)  # type: ignore[arg-type]
    before, during = exchanges(NOW - 100 * S, 200), exchanges(NOW, round(seconds / EVERY_S))
    own._around = SimpleNamespace(before=SimpleNamespace(exchanges=before))
    own._follow, own._link = SimpleNamespace(exchanges=during), LINK
    return own, [*before, *during]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without looking for hardware."""
    for name in ("hardware", "system"):
        monkeypatch.setattr(f"inferbench_tasks.monitors.environment.{name}", dict)


@pytest.mark.usefixtures("plain")
def test_a_day_from_eight_hosts_is_recorded() -> None:
    """Each host's part stays below 1 MB of the 16 MB that PerfDB takes, as JSON too."""
    own, _ = side(DAY_S)
    facts = own.facts(NOW, NOW + DAY_S * S).facts
    further = tuple(
        FurtherHost(**facts, host=name, monitors_path="/m", ahead_ns=1, error_ns=1, shards=(at,))
        for at, name in enumerate(ORDINALS, 1)
    )
    assert len(further) >= 7
    away = Away(**facts, host="one", monitors_path="/m", further=further)
    document = away.model_dump(mode="json")
    for one in (document | {"further": []}, *document["further"]):
        assert len(bson.encode(one)) < 1_000_000 and len(json.dumps(one)) < 1_000_000
    assert len(bson.encode(document)) < 2_000_000


@pytest.mark.usefixtures("plain")
def test_what_is_told_of_a_long_load_is_told_by_all_its_exchanges() -> None:
    """How the clocks lie, and the round trips of the window: handing on fewer exchanges makes none of it wider, shorter
    or less."""
    own, asked = side(4 * 3600)
    window = NOW + 60 * S, NOW + 4 * 3600 * S - 60 * S
    facts, place = own.facts(*window), own.placed(*window)
    assert place is not None and place == two_hosts.placed(asked, *window)
    assert abs(place.offset_ns - AHEAD) <= place.error_ns < 2 * MS
    within = [e.round_trip_ns for e in asked if window[0] <= e.sent_ns and e.received_ns <= window[1]]
    assert facts.meanwhile == RoundTrips.of(within) and len(within) > 50_000
    assert len(facts.exchanges) <= 200 + MOST_EXCHANGES
    fewer = two_hosts.placed([Exchange(*four) for four in facts.exchanges], *window)
    assert fewer is not None and fewer.error_ns > place.error_ns


@pytest.mark.usefixtures("plain")
def test_of_a_short_load_all_exchanges_are_handed_on() -> None:
    """And of a window in which nobody asked no round trip is told."""
    own, asked = side(60)
    facts = own.facts(NOW + 3600 * S, NOW + 3601 * S)
    assert [Exchange(*four) for four in facts.exchanges] == asked and facts.meanwhile is None
