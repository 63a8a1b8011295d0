"""Tasks whose message was lost on its way."""

from __future__ import annotations

import pytest

from inferbench_tasks.provider.executors.lost import EXPECTED_S, TIMES, Sent


class Clock:
    """Moved by the test."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_only_what_should_have_started_is_looked_for(clock: Clock) -> None:
    """And nothing that the executor has forgotten meanwhile."""
    sent = Sent(clock)
    sent.add(["a", "b"])
    assert sent.overdue(["a", "b"]) == []
    clock.now = EXPECTED_S + 1
    sent.add(["c"])
    assert sent.overdue(["a", "c"]) == ["a"]
    assert sent.overdue(["a", "b", "c"]) == ["a"]


def test_lost_is_what_is_missing_again_and_again(clock: Clock) -> None:
    """Once is no proof: the message may have been between the queue and the worker."""
    sent = Sent(clock)
    sent.add(["a", "b"])
    looks = [sent.lost(["a", "b"], {"a"}) for _ in range(TIMES)]
    assert looks == [[]] * (TIMES - 1) + [["a"]]


def test_seen_again_it_counts_from_the_start(clock: Clock) -> None:
    """So does a task that was sent again."""
    sent = Sent(clock)
    for missing in ({"a"}, set(), {"a"}):
        assert sent.lost(["a"], missing) == []
    sent.add(["a"])
    assert sent.lost(["a"], {"a"}) == []
