"""Whose times lists of bricks have, over REST, in commands and as a page, on a real PerfDB."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.places import Place
from inferbench_tasks.brick_jobs.predictions import predictions
from inferbench_tasks.brick_jobs.result import BricksResult
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.bricks.results import WHOLE
from inferbench_tasks.cli.bricks import app
from inferbench_tasks.contracts.verdict import VALID
from inferbench_tasks.perfdb.documents import SubmissionInfo
from inferbench_tasks.perfdb.store import PerfDB
from tests.unit.bricks.builders import SETTING, result

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
API = "/inferbench/api/bricks"
KEY = "ab" * 32
PLACES = [Place(name * 32, f"host-{name}") for name in "ab"]


def put(perfdb: PerfDB, place: Place, timed_on: list[str]) -> None:
    """A time of a brick on that host, and a prediction that says that it is of these."""
    store = PerfDBResults(perfdb, SETTING, place=place)
    store.set_base_ns({"dense": 1.0})
    own = {"key": KEY, "session": place.host, "home": place.home, "host": place.host}
    store.put(result("a", 1e6, 1e6).model_copy(update=own))
    cut = CutModel(
        at=0, name="m", copies=1, task=None, digest="d", batch_size=1, granularity="1", layers=1, operators=("Conv",),
        whole=f"{WHOLE}m", parts=("a",), needs=((),),
    )  # fmt: skip
    [[one]] = predictions([cut], store.get_many(["a"]), 3, own=place).values()
    perfdb.save_result(
        BricksResult(
            run_id=f"{place.host}.000", job_id="x", submission=SubmissionInfo(name="x"), verdict=VALID, role="model",
            model={"name": "m"}, setting=SETTING.model_dump(mode="json"),
            predictions=[one.model_copy(update={"timed_on": timed_on})],
        )
    )  # fmt: skip


def test_hosts_are_shown_where_a_device_has_times_of_several(
    http: TestClient, perfdb: PerfDB, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the page, in REST's JSON and CSV, and by the commands; of one host none of them has a column for it."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    for place, many in zip(PLACES, (False, True), strict=True):
        put(perfdb, place, ["host-a", "<b>"] if many else [])
        text = http.get("/inferbench/bricks").text
        assert text.count('<th scope="col">timed on</th>') == (2 if many else 0)
        assert ("host-a, host-b" in text) == ("host-a, &lt;b&gt;" in text) == many and "<b>" not in text
        items = http.get(API).json()["items"]
        assert {row.get("host") for row in items} == ({"host-a", "host-b"} if many else {None})
        head = http.get(f"{API}?format=csv").text.splitlines()[0].split(",")
        assert head[4:7] == (["device", "host", "runtime"] if many else ["device", "runtime", "threads"])
        [device] = http.get(f"{API}/devices").json()["items"]
        assert device.get("hosts") == (["host-a", "host-b"] if many else None)
        for command in (["list"], ["show", KEY[:8]], ["list", "--devices"]):
            said = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
            assert said.exit_code == 0 and ("host-b" in said.stdout) == many
