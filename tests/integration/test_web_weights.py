"""What the pages weigh, with all that they need: they are looked at over slow lines too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.testclient import TestClient

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.navigation import PAGES as NAVIGATION
from tests.e2e import made_traces, page_site
from tests.e2e.every_page import PAGES
from tests.unit.perfdb.builders import latency

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
#: Compressed, but for Plotly, which a browser keeps.
MOST_BYTES = 400_000
NOBODY = "model?name=nobody"
_NEEDED = re.compile(r'(?:src|href)="(/inferbench/static/[^"]+)"')


def test_no_page_weighs_more_than_400_kb(perfdb: PerfDB, http: TestClient, tmp_path: Path) -> None:
    """Compressed as Airflow's server does it, with every script and style that it names. Each page of the navigation is
    among them; what they name is there, but for the model that nobody has.
    """
    for number in range(100):
        names = {"name": f"quick-{number % 7}", "user": "ann", "digest": f"{number:064x}"}
        perfdb.save_result(latency(f"run-{number}", 10.0 + number, submission=names))
    page_site.seed(perfdb, tmp_path)
    page_site.of_devices(perfdb)
    made_traces.seed(perfdb, tmp_path)
    served = FastAPI()
    served.mount("/", http.app)
    served.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)
    assert {re.split("[/?]", path)[0] for path in PAGES} >= NAVIGATION.keys()
    weights: dict[str, int] = {}
    with TestClient(served) as client:

        def weight(path: str) -> int:
            if path not in weights:
                answer = client.get(path)
                assert answer.status_code == (404 if path.endswith(NOBODY) else 200), path
                weights[path] = int(answer.headers["content-length"])
                weights[path] += sum(map(weight, set(_NEEDED.findall(answer.text))))
            return weights[path] if "plotly" not in path else 0

        heavy = {path: bytes for path in PAGES if (bytes := weight(f"/inferbench/{path}")) > MOST_BYTES}
    assert heavy == {}
    assert weights["/inferbench/home"] > 5_000, "its styles and scripts were weighed"
