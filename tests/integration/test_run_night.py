"""Whole nights by ``run_night``: sessions with known figures in a real PerfDB; only the measuring is replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.regression import session as module
from inferbench_tasks.regression import store
from inferbench_tasks.regression.session import Night, run_night
from tests.unit.regression.nights import side, write_session

pytestmark = pytest.mark.integration

YAML = "name: quick\nmodel: {kind: zoo, name: digits}\nload: {arrivals: {kind: poisson, rate_rps: 50}, duration_s: 5}\n"
#: What the candidate's figures are multiplied by in each session of a night, by figure.
Shift = dict[str, float]


@pytest.fixture
def night_of(
    request: pytest.FixtureRequest, perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Sequence[Shift]], dict[str, Any]]:
    """A function that runs a night whose sessions measure what they are told; it returns the overview.

    With the parameter ``streamed`` they are of streams of tokens.
    """
    streamed = getattr(request, "param", None) == "streamed"
    file = tmp_path / "quick.yaml"
    file.write_text(YAML)
    monkeypatch.setattr(module, "side_of", lambda tree, python, data_dir: side("new"))
    monkeypatch.setattr(module, "own_checkout", lambda: tmp_path)
    accepted = side("old").model_copy(update={"tree": str(tmp_path), "python": str(file)})
    store.move_baseline(perfdb, "quick", accepted, "accepted before")

    def run(shifts: Sequence[Shift]) -> dict[str, Any]:
        left = list(shifts)

        def measure(*args: Any, kind: Any, baseline: Any, candidate: Any, **kwargs: Any) -> None:
            write_session(
                perfdb, left.pop(0) if left else {}, kind=kind, baseline=baseline.id, streamed=streamed
            )

        monkeypatch.setattr(module, "run_session", measure)
        return run_night(Night(file=file, pairs=8), perfdb, tmp_path, lambda text: None)

    return run


def confirmed(overview: dict[str, Any]) -> set[str]:
    return {change["series"].rpartition("-")[2] for change in overview["regressions"]}


def quiet_nights(night_of: Callable[[Sequence[Shift]], dict[str, Any]]) -> None:
    for _ in range(4):
        assert night_of([{}])["regressions"] == []


def test_what_any_session_of_a_night_confirmed_is_told(night_of: Any) -> None:
    """15.1: p50 is confirmed by the first confirmation; p95 needs a second, in which p50 has nothing new to show."""
    quiet_nights(night_of)
    overview = night_of([{"p50": 1.2, "p95": 1.1}, {"p50": 1.2, "p95": 1.02}, {"p50": 1.2, "p95": 1.02}])
    newest = overview["sessions"][-1]["id"]
    (change,) = [c for c in overview["regressions"] if c["series"].endswith("p50_ms")]
    assert change["session"] != newest and change["change_percent"] == pytest.approx(20, abs=2)


def test_the_baseline_waits_for_open_suspicions(night_of: Any, perfdb: PerfDB) -> None:
    """15.2: a confirmed p50 leaves the baseline alone while p95 is suspected, and p95's change is found after it."""
    quiet_nights(night_of)
    first = night_of([{"p95": 1.05}, {"p50": 1.2, "p95": 1.01}, {"p50": 1.2, "p95": 1.01}])
    assert [s["series"].rpartition("-")[2] for s in first["suspicions"]] == ["p95_ms"]
    kept = store.baseline(perfdb, "quick")
    assert kept is not None and kept.id == "old"
    second = night_of([{"p50": 1.2, "p95": 1.06}] * 3)
    assert confirmed(second) == {"p95_ms"}  # and p50, told before, is not told again
    moved = store.baseline(perfdb, "quick")
    assert moved is not None and moved.id == "new"


@pytest.mark.parametrize("night_of", ["streamed"], indirect=True)
@pytest.mark.parametrize("time", ["ttft", "tpot"])
def test_a_slower_language_model_is_a_regression_in_the_time_that_grew(night_of: Any, time: str) -> None:
    """8% more to the first token, or per token: that median alone, though a night has too few answers for a p99."""
    quiet_nights(night_of)
    overview = night_of([{time: 1.08}] * 3)
    assert confirmed(overview) == {f"{time}_p50_ms"}
    (change,) = overview["regressions"]
    assert change["change_percent"] == pytest.approx(8, abs=2)
