"""Parts of pages that are pushed, on a real PerfDB; a browser follows them in ``test_web_pages``."""

from __future__ import annotations

import asyncio
import json

import pytest
from fastapi.testclient import TestClient

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.ui import pushed
from tests.unit.training.epochs import JOB

pytestmark = [pytest.mark.integration, pytest.mark.airflow]


def test_only_what_changed_is_sent(perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part at once, then a comment until something happens; who leaves is counted no more."""
    monkeypatch.setattr(pushed, "TICK_S", 0.01)

    async def looked_at() -> list[str]:
        events = pushed._events("home", perfdb)
        seen = [await anext(events), await anext(events)]
        perfdb.start_run("now-1.000", "now-1", "now", JOB.model_dump(mode="json"))
        seen.append(await anext(events))
        assert len(pushed._watching) == 1
        await events.aclose()  # type: ignore[attr-defined]
        return seen

    first, second, third = asyncio.run(looked_at())
    assert first.startswith("event: now\ndata: ") and "Nothing runs." in json.loads(first.split("data: ")[1])
    assert second == ":\n\n"
    assert "now-1.000" in json.loads(third.split("data: ")[1])
    assert not pushed._watching


def test_a_part_is_made_once_for_all_who_look(perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a tick the same is given, whatever happened; each page has its own."""
    before = pushed.part("home", perfdb)
    perfdb.start_run("now-1.000", "now-1", "now", JOB.model_dump(mode="json"))
    assert pushed.part("home", perfdb) == before
    assert "No worker has registered a device." in pushed.part("cluster", perfdb)
    monkeypatch.setattr(pushed, "TICK_S", 0.0)
    assert "now-1.000" in pushed.part("home", perfdb) != before


def test_no_more_follow_than_a_server_bears(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is told so, and asks again now and then; of other pages it is a 404 that lists these."""
    monkeypatch.setattr(pushed, "MOST_WATCHERS", 0)
    assert http.get("/inferbench/api/pages/home/live").status_code == 503
    missing = http.get("/inferbench/api/pages/runs/live")
    assert missing.status_code == 404 and "home, cluster" in missing.text
