"""A night by hand: what follows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.cli import regress
from inferbench_tasks.errors import InputError
from inferbench_tasks.regression.bisect import session, steps, text
from inferbench_tasks.regression.bisect.start import request_of

YAML = "name: quick\nmodel: {kind: zoo, name: digits}\nload: {arrivals: {kind: poisson, rate_rps: 50}, duration_s: 5}\n"
START = {"figure": "p99_ms", "good": "good", "bad": "bad"}
CONFIRMED = {"regressions": [{"bisect": None}, {"bisect": START}], "improvements": []}


@pytest.fixture
def bisected(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was bisected; nothing is measured."""
    requests: list[Any] = []

    def bisect(request: Any, *others: Any) -> tuple[None, None]:
        requests.append(request)
        return None, None

    monkeypatch.setattr(session, "bisect", bisect)
    monkeypatch.setattr(steps, "commits", lambda repo, good, bad: [good, bad])
    monkeypatch.setattr(text, "sentences", lambda state, answer: ["culprit: bad"])
    return requests


@pytest.mark.parametrize("asked", [True, False])
def test_a_night_that_confirms_a_regression_bisects_it_where_its_submission_says_so(
    tmp_path: Path, bisected: list[Any], capsys: pytest.CaptureFixture[str], asked: bool
) -> None:
    """15.25: the first change between two commits, by its figure; without ``nightly.bisect`` nothing starts."""
    file = tmp_path / "quick.yaml"
    file.write_text(YAML + ("nightly: {bisect: true}\n" if asked else ""))
    database: Any = None
    regress.bisect_if_asked(file, CONFIRMED, database, tmp_path)
    assert [(r.file, r.steps, r.figure) for r in bisected] == (
        [(file, ["good", "bad"], "p99_ms")] if asked else []
    )
    assert ("culprit: bad" in capsys.readouterr().out) is asked


def test_without_a_regression_nothing_is_bisected(tmp_path: Path, bisected: list[Any]) -> None:
    """Nor for an improvement, or within one commit."""
    file = tmp_path / "quick.yaml"
    file.write_text(YAML + "nightly: {bisect: true}\n")
    database: Any = None
    for changes in ([], [{"bisect": None}]):
        regress.bisect_if_asked(file, {"regressions": changes}, database, tmp_path)
    assert bisected == []


def test_a_small_change_of_a_later_job_is_looked_for_as_what_it_is(
    tmp_path: Path, bisected: list[Any]
) -> None:
    """15.25: 1.25% of the third job: a bisection of the first, or for 3%, would call the ends equal."""
    start: dict[str, Any] = START | {"job": 2, "detect_percent": 1.25}
    request = request_of(tmp_path / "x.yaml", start)
    assert (request.job, request.detect) == (2, 0.0125)
    usual = request_of(tmp_path / "x.yaml", START)
    assert (usual.job, usual.detect) == (0, 0.03)


def test_a_bisection_without_its_ends_is_refused(tmp_path: Path) -> None:
    """As one that is started by hand in the UI, with nothing filled in."""
    with pytest.raises(InputError, match="needs a commit for good and bad"):
        request_of(tmp_path / "x.yaml", {"good": None, "bad": "", "figure": "p50_ms"})
