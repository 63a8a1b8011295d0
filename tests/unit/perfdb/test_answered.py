"""How the benchmarks of pages tell that something else came than what they were to time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.perfdb.answered import (
    NotAnswered,
    require_answered,
    require_light,
    require_opened,
    require_points,
)
from benchmarks.perfdb.filled import measure


def test_what_is_no_answer_is_said_in_words() -> None:
    """An error of the server, a picture without points, a page that is too heavy, one that a browser did not get; what
    is right passes."""
    good = SimpleNamespace(status_code=200, text="", json=lambda: {"rows": [1]}, ok=True, status=200)
    require_answered("/runs", good)
    require_points("/api/points", good)
    require_light("/runs", 400_000, 400_000)
    require_opened("/runs", good)
    bad = SimpleNamespace(status_code=500, text="no PerfDB", json=lambda: {"rows": []}, ok=False, status=500)
    require_points("/runs", bad)
    told_of: list[tuple[Callable[[], None], str]] = [
        (lambda: require_answered("/runs", bad), "/runs answers with 500: no PerfDB"),
        (
            lambda: require_points("/api/points?x=p50_ms", bad),
            "/api/points?x=p50_ms is a picture without points",
        ),
        (
            lambda: require_light("/runs", 400_001, 400_000),
            "/runs weighs 400,001 bytes, at most 400,000 may be",
        ),
        (lambda: require_opened("/runs", bad), "/runs answers with 500"),
        (lambda: require_opened("/runs", None), "/runs answers with nothing"),
    ]
    for ask, words in told_of:
        with pytest.raises(NotAnswered) as told:
            ask()
        assert str(told.value) == words


def test_a_benchmark_without_an_answer_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However quick the others were: exit code 1, with why as the last line."""

    def none() -> int:
        raise NotAnswered("/runs answers with 500: no PerfDB")

    with pytest.raises(SystemExit) as ended:
        measure({"home": lambda: 7, "runs": none}, 1e6, tmp_path, "bytes")
    assert ended.value.code == 1
    assert capsys.readouterr().out.splitlines()[-1] == "/runs answers with 500: no PerfDB: FAILED"
