"""What a browser is told where there is nothing to show, or something else was asked than there is."""

from __future__ import annotations

import html
import re

import pytest
from fastapi.testclient import TestClient

from inferbench_tasks.perfdb.store import PerfDB
from tests.unit.perfdb.builders import latency

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize(
    ("path", "status", "words", "back"),
    [
        ("run/nobody", 404, "there is no run 'nobody'", "runs"),
        ("report/nobody", 404, "invocation nobody has no report yet", "runs"),
        ("trace/zz", 404, "zz", "traces"),
        ("nothing-here", 404, "There is no page /inferbench/nothing-here", "home"),
        ("cluster?hours=abc", 422, "hours=abc: Input should be a valid number", "cluster"),
        ("runs?offset=-3", 422, "offset=-3: Input should be greater than or equal to 0", "runs"),
        ("runs?limit=abc", 422, "limit=abc: Input should be a valid integer", "runs"),
        (
            "runs?verdikt=valid",
            422,
            "verdikt=valid: there is no such parameter here; did you mean 'verdict'?",
            "runs",
        ),
        (
            "leaderboard?whatever=1",
            422,
            "whatever=1: there is no such parameter here; allowed: ",
            "leaderboard",
        ),
    ],
)
def test_a_browser_is_answered_by_a_page(
    perfdb: PerfDB, http: TestClient, path: str, status: int, words: str, back: str
) -> None:
    """With what was given, what is wrong with it and a way back; who asks for no page has JSON as before."""
    answer = http.get(f"/inferbench/{path}", headers=BROWSER)
    assert answer.status_code == status and answer.headers["content-type"].startswith("text/html")
    text = html.unescape(answer.text)
    assert words in text and f'<p><a href="/inferbench/{back}">' in text
    assert "detail" in http.get(f"/inferbench/{path}").json()


def test_rest_stays_json_whoever_asks(perfdb: PerfDB, http: TestClient) -> None:
    """A browser that opens REST's own addresses too; what was given stands in no page unescaped."""
    for path in ("api/runs/nobody", "api/runs?limit=abc", "api/nothing"):
        assert "detail" in http.get(f"/inferbench/{path}", headers=BROWSER).json(), path
    assert (
        "<script>"
        not in http.get("/inferbench/cluster?hours=<script>x", headers=BROWSER).text.partition("<main")[2]
    )


def test_runs_of_one_verdict_are_listed(perfdb: PerfDB, http: TestClient) -> None:
    """``verdict=disturbed`` lists those alone, which the leaderboard's note leads to; another word is refused with
    those that there are.
    """
    perfdb.save_result(latency("good", 10.0))
    perfdb.save_result(latency("shaken", 11.0, verdict="disturbed: another process used the CPU"))
    listed = http.get("/inferbench/runs?verdict=disturbed").text
    assert "/inferbench/run/shaken" in listed and "/inferbench/run/good" not in listed
    board = http.get("/inferbench/leaderboard").text
    assert 'href="/inferbench/runs?verdict=disturbed"' in board and "`" not in board
    refused = http.get("/inferbench/runs?verdict=nonsense").text
    assert "allowed are valid, disturbed, invalid" in refused


def test_a_figure_that_there_is_none_of_is_refused(perfdb: PerfDB, http: TestClient) -> None:
    """The form of recommendations says so, with those that are allowed, and is not just empty."""
    perfdb.save_result(latency("good", 10.0))
    text = html.unescape(http.get("/inferbench/recommend?by=nonsense").text)
    assert 'role="alert"' in text and "'nonsense'" in text and "p99_ms" in text


def test_one_load_is_picked_by_a_link(perfdb: PerfDB, http: TestClient) -> None:
    """Of ten loads eight have a link each, with the bound that was asked for, and two more are counted; the first of
    them leads to a recommendation.
    """
    for number in range(10):
        perfdb.save_result(
            latency(
                f"run-{number}",
                10.0,
                submission={"name": "s", "user": "ann", "digest": f"{number:064x}"},
                load={
                    "arrivals": {"kind": "poisson", "rate_rps": 10.0 + number},
                    "batch_size": 1,
                    "duration_s": 9.0,
                },
            )
        )
    asked = {"bounded": "p99_ms", "sign": "<=", "value": "50", "by": "throughput_rps"}
    text = http.get("/inferbench/recommend", params=asked).text
    ways = [html.unescape(way) for way in re.findall(r'<li><a href="(/inferbench/recommend[^"]+)"', text)]
    assert len(ways) == 8 and "and 2 more" in text and "--load" not in text
    picked = http.get(ways[0]).text
    assert 'role="alert"' not in picked and "1 of 1 configuration(s) keep p99_ms ≤ 50" in picked
