"""Parts of pages that are pushed, on a real PerfDB; a browser follows them in ``test_web_pages``."""

from __future__ import annotations

import asyncio
import json

import pytest
from fastapi.testclient import TestClient

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.ui import pushed
from inferbench_tasks.provider.ui.watchers import Watchers
from tests.unit.training.epochs import JOB

pytestmark = [pytest.mark.integration, pytest.mark.airflow]


def test_only_what_changed_is_sent(perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part at once, then a comment until something happens."""
    monkeypatch.setattr(pushed, "TICK_S", 0.01)

    async def looked_at() -> list[str]:
        events = pushed.events(pushed.part("home", perfdb))
        seen = [await anext(events), await anext(events)]
        perfdb.start_run("now-1.000", "now-1", "now", JOB.model_dump(mode="json"))
        seen.append(await anext(events))
        await events.aclose()  # type: ignore[attr-defined]
        return seen

    first, second, third = asyncio.run(looked_at())
    assert first.startswith("event: now\ndata: ") and "Nothing runs." in json.loads(first.split("data: ")[1])
    assert second == ":\n\n"
    assert "now-1.000" in json.loads(third.split("data: ")[1])


def test_a_part_is_made_once_for_all_who_look(perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a tick the same is given, whatever happened; each page has its own."""
    monkeypatch.setattr(pushed, "TICK_S", 3600.0)

    async def looked_at() -> None:
        before = await pushed.part("home", perfdb).html()
        perfdb.start_run("now-1.000", "now-1", "now", JOB.model_dump(mode="json"))
        assert await pushed.part("home", perfdb).html() == before
        assert "No worker has registered a device." in await pushed.part("cluster", perfdb).html()
        monkeypatch.setattr(pushed, "TICK_S", 0.0)
        assert "now-1.000" in await pushed.part("home", perfdb).html() != before

    asyncio.run(looked_at())


def test_no_more_follow_than_a_server_bears(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is told so, and asks again now and then, and so is one too many of a login; of other pages it is a
    404 that lists these.
    """
    for most, of_a_login, status in ((0, 1, 503), (1, 0, 429)):
        monkeypatch.setattr(pushed, "WATCHERS", Watchers(most, of_a_login))
        assert http.get("/inferbench/api/pages/home/live").status_code == status
    missing = http.get("/inferbench/api/pages/runs/live")
    assert missing.status_code == 404 and "home, cluster" in missing.text
