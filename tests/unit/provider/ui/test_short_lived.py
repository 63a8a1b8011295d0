"""What pages ask again and again is asked of PerfDB every half minute."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.ui.short_lived import AGE_S, short_lived


def test_an_answer_is_kept_for_a_while_of_each_perfdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two asked within half a minute are one, of another PerfDB another; an empty answer is asked for again."""
    now, asked = [1000.0], list[str]()
    monkeypatch.setattr("inferbench_tasks.provider.ui.short_lived.time.monotonic", lambda: now[0])

    @short_lived
    def names(db: PerfDB) -> list[str]:
        asked.append(db.uri)
        return [] if db.uri == "empty" else [db.uri]

    one, two, empty = (cast(PerfDB, SimpleNamespace(uri=uri)) for uri in ("one", "two", "empty"))
    assert names(one) == names(one) == ["one"] and names(two) == ["two"]
    assert asked == ["one", "two"]
    now[0] += AGE_S + 1
    names(one)
    assert asked == ["one", "two", "one"]
    assert names(empty) == names(empty) == [] and asked[3:] == ["empty", "empty"]
