"""A worker that is started while what it needs is down."""

from __future__ import annotations

import logging

import pytest

from inferbench_tasks.errors import InferBenchError, InputError, LeaderAwayError, PerfDBAwayError, ServerError
from inferbench_tasks.workers import patience
from inferbench_tasks.workers.patience import once_there


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Those that would have been made."""
    made: list[float] = []
    monkeypatch.setattr("inferbench_tasks.workers.patience.time.sleep", made.append)
    return made


def test_it_waits_until_somebody_answers_and_says_for_what(
    pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """Each reason once, however often it is the same; longer and longer, up to a bound."""
    errors: list[InferBenchError] = [*[LeaderAwayError("no leader")] * 6, PerfDBAwayError("no PerfDB")]

    def ask() -> str:
        if errors:
            raise errors.pop(0)
        return "there"

    with caplog.at_level(logging.WARNING):
        assert once_there(ask) == "there"
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
        "no leader",
        "no PerfDB",
    ]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]


def test_what_it_waits_for_is_said_again_now_and_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who looks at the log of a worker that has waited for hours finds why."""
    left = [3]

    def ask() -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise LeaderAwayError("no leader")

    monkeypatch.setattr(patience, "SAY_AGAIN_S", -1.0)
    with caplog.at_level(logging.WARNING):
        once_there(ask)
    assert len(caplog.records) == 3


@pytest.mark.parametrize("error", [InputError("the token is revoked"), ServerError("answers 404")])
def test_what_waiting_does_not_mend_ends_it_at_once(pauses: list[float], error: InferBenchError) -> None:
    """A token that is refused, a URL behind which no leader is."""

    def ask() -> None:
        raise error

    with pytest.raises(type(error)):
        once_there(ask)
    assert pauses == []
