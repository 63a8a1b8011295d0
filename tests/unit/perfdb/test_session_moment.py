"""The moment that a session tells while its server is away."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from inferbench_tasks.errors import PerfDBAwayError
from inferbench_tasks.perfdb import moments, session
from inferbench_tasks.perfdb.session import Session

MS = 1_000_000
BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Away:
    """A server that is not there for so long, and a clock that goes on only while somebody waits for it."""

    def __init__(self, patch: pytest.MonkeyPatch, away_ms: int, selected_ms: int = 0) -> None:
        self.passed_ms, self.refusals = 0.0, 0
        self._away_ms, self._selected_ms = away_ms, selected_ms
        clock = SimpleNamespace(
            monotonic=lambda: self.passed_ms / 1e3,
            monotonic_ns=lambda: round(self.passed_ms * MS),
            time_ns=lambda: round(BEGAN.timestamp() * 1e9 + self.passed_ms * MS),
            sleep=self._sleep,
        )
        patch.setattr(session, "time", clock)
        patch.setattr(moments, "time", clock)
        database = SimpleNamespace(client=self, command=self._hello)
        patch.setattr(Session, "database", lambda session: database)

    def _sleep(self, seconds: float) -> None:
        self.passed_ms += seconds * 1e3

    @property
    def is_primary(self) -> bool:
        """Waits for a server, as pymongo does."""
        self.passed_ms += self._selected_ms
        if self.passed_ms < self._away_ms:
            self.refusals += 1
            raise AutoReconnect("away")
        return True

    def _hello(self, name: str) -> dict[str, Any]:
        self.passed_ms += 2
        return {"localTime": (BEGAN + timedelta(milliseconds=self.passed_ms - 1)).replace(tzinfo=None)}


@pytest.mark.parametrize(("away_ms", "selected_ms"), [(0, 0), (20_000, 0), (20_000, 2_000), (0, 9_000)])
def test_a_moment_is_when_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, away_ms: int, selected_ms: int
) -> None:
    """Not when PerfDB came back: a stage has ended before the outage that its record waits for. To the exchange's
    length, which is the error that is told of this host's clock."""
    server = Away(monkeypatch, away_ms, selected_ms)
    told = Session("mongodb://127.0.0.1:1/inferbench", None).moment()
    assert server.passed_ms >= max(away_ms, selected_ms) and (server.refusals > 0) == (away_ms > 0)
    assert timedelta(0) <= told.at - BEGAN <= timedelta(milliseconds=3)
    assert abs(told.clock.ahead_s) <= told.clock.error_s == pytest.approx(0.0015)


def test_who_has_less_patience_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is asked for with the patience of who asks."""
    server = Away(monkeypatch, away_ms=60_000)
    with pytest.raises(PerfDBAwayError):
        Session("mongodb://127.0.0.1:1/inferbench", None).moment(patience_s=1.0)
    assert server.passed_ms <= 1_000
