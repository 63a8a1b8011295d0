"""The search for the highest rate, against servers of which the answer is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from inferbench_tasks.loadgen.rate_search import LONGEST, REPEATS, Finding, RateSearch, Try, doubts

Server = Callable[[Try], Finding]


def searched(
    server: Server, start_rps: float = 100.0, lowest_rps: float = 0.0, limit_rps: float = math.inf
) -> RateSearch:
    """A search that has come to its end."""
    search = RateSearch(start_rps, 0.05, 10.0, lowest_rps, limit_rps)
    while (turn := search.next()) is not None:
        search.tell(server(turn))
    return search


def sharp(limit_rps: float) -> Server:
    """Every rate up to the limit is kept, every other one broken."""

    def probe(turn: Try) -> Finding:
        kept = turn.rate_rps <= limit_rps
        return Finding(turn.rate_rps, turn.duration_s, "kept" if kept else "broken", kept)

    return probe


def blurred(limit_rps: float, width_ratio: float) -> Server:
    """Rates near the limit stay undecided, however long the load is; they lean to their side."""

    def probe(turn: Try) -> Finding:
        if abs(math.log(turn.rate_rps / limit_rps)) < width_ratio:
            leans = turn.rate_rps <= limit_rps
            return Finding(turn.rate_rps, turn.duration_s, "undecided", leans, needed_s=None)
        return sharp(limit_rps)(turn)

    return probe


@pytest.mark.parametrize("limit_rps", [13.7, 99.9, 100.0, 640.0, 812.0, 20_000.0])
@pytest.mark.parametrize("start_rps", [10.0, 100.0, 5_000.0])
def test_the_answer_lies_between_a_rate_kept_and_one_broken_that_are_as_near_as_asked(
    limit_rps: float, start_rps: float
) -> None:
    """From whatever start: the limit is in [kept, broken], which differ by 5% at most."""
    search = searched(sharp(limit_rps), start_rps)
    assert search.kept_rps is not None and search.broken_rps is not None
    assert search.kept_rps <= limit_rps < search.broken_rps
    assert search.broken_rps <= search.kept_rps * 1.05 * (1 + 1e-6)
    assert not search.undecided_rps
    assert len(search.findings) <= 8 + abs(math.log2(limit_rps / start_rps))


def test_rates_that_stay_undecided_widen_the_answer_and_are_never_called_kept() -> None:
    """Within 15% of the limit nothing is decided: kept is below that, broken above it, each as near as asked."""
    search = searched(blurred(800.0, 0.15))
    assert search.kept_rps is not None and search.broken_rps is not None
    assert search.kept_rps <= 800 * math.exp(-0.15) <= search.kept_rps * 1.05
    assert search.broken_rps / 1.05 <= 800 * math.exp(0.15) <= search.broken_rps
    assert search.undecided_rps
    assert all(search.kept_rps < rate < search.broken_rps for rate in search.undecided_rps)


def test_an_undecided_probe_is_lengthened_once_to_what_would_decide() -> None:
    """25 s would decide: the second probe of the rate lasts that and a margin, and counts."""
    lengths: dict[float, list[float]] = {}

    def probe(turn: Try) -> Finding:
        lengths.setdefault(turn.rate_rps, []).append(turn.duration_s)
        if turn.duration_s < 25:
            return Finding(turn.rate_rps, turn.duration_s, "undecided", True, needed_s=25.0)
        return sharp(400.0)(turn)

    search = searched(probe)
    assert search.kept_rps is not None and 380 < search.kept_rps <= 400
    assert all(each == [10.0, 30.0] for each in lengths.values())


def test_a_probe_that_would_take_too_long_to_decide_is_not_lengthened() -> None:
    """Beyond LONGEST times its length the rate stays undecided."""

    def probe(turn: Try) -> Finding:
        assert turn.duration_s == 10.0
        return Finding(turn.rate_rps, turn.duration_s, "undecided", False, needed_s=10.0 * LONGEST + 1)

    search = searched(probe, lowest_rps=20.0)
    assert search.kept_rps is None and search.broken_rps is None
    assert min(search.undecided_rps) == 20.0


def test_a_disturbed_probe_is_repeated_and_does_not_count() -> None:
    """The first two probes of every rate say nothing: the answer is that of the third ones."""
    seen: dict[float, int] = {}

    def probe(turn: Try) -> Finding:
        seen[turn.rate_rps] = seen.get(turn.rate_rps, 0) + 1
        if seen[turn.rate_rps] <= REPEATS:
            return Finding(turn.rate_rps, turn.duration_s, "unusable", False)
        return sharp(500.0)(turn)

    search = searched(probe)
    assert search.kept_rps is not None and search.broken_rps is not None
    assert search.kept_rps <= 500 < search.broken_rps
    assert search.broken_rps <= search.kept_rps * 1.05 * (1 + 1e-6)


def test_where_every_probe_is_disturbed_there_is_no_answer_and_an_end() -> None:
    """Nothing is kept, nothing broken; each rate was tried REPEATS + 1 times."""
    search = searched(lambda turn: Finding(turn.rate_rps, turn.duration_s, "unusable"), lowest_rps=20.0)
    assert search.kept_rps is None and search.broken_rps is None
    rates = [finding.rate_rps for finding in search.findings]
    assert all(rates.count(rate) == REPEATS + 1 for rate in rates)


def test_a_search_of_which_no_probe_counts_ends_after_two_rates_and_says_so() -> None:
    """It does not walk down to the lowest rate that could decide: the machine would be as busy there."""
    search = searched(lambda turn: Finding(turn.rate_rps, turn.duration_s, "unusable"), lowest_rps=0.001)
    assert [finding.rate_rps for finding in search.findings] == [100.0] * 3 + [50.0] * 3
    assert any("none of its 6 probes at 2 rates counts" in text for text in doubts(search, None))
    assert not any("none of its" in text for text in doubts(searched(sharp(500.0)), None))


def test_one_probe_that_counts_keeps_a_search_going() -> None:
    """A disturbed minute at the start ends nothing."""
    count = 0

    def probe(turn: Try) -> Finding:
        nonlocal count
        count += 1
        return Finding(turn.rate_rps, turn.duration_s, "unusable") if count <= 5 else sharp(30.0)(turn)

    assert searched(probe).kept_rps is not None


def test_no_rate_above_what_the_client_can_send_is_tried() -> None:
    """A server that keeps every rate is kept at the client's limit, and nothing is known to break it."""
    search = searched(sharp(math.inf), limit_rps=730.0)
    assert search.kept_rps == 730.0
    assert search.broken_rps is None


def test_a_limit_that_is_learnt_on_the_way_holds_from_then_on() -> None:
    """``cap`` bounds what is tried next, not what was tried."""
    search = RateSearch(100.0, 0.05, 10.0)
    first = search.next()
    assert first is not None
    search.tell(sharp(math.inf)(first))
    assert search.next() == Try(200.0, 10.0)
    search.cap(150.0)
    second = search.next()
    assert second == Try(150.0, 10.0)
    search.tell(sharp(math.inf)(second))
    assert search.next() is None


def test_a_server_that_keeps_no_rate_has_no_figure() -> None:
    """Down to the lowest rate that could be decided; every one is broken."""
    search = searched(sharp(0.0), lowest_rps=20.0)
    assert search.kept_rps is None
    assert search.broken_rps == 20.0
