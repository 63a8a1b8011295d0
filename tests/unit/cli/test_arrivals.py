"""``inferbench arrivals``: every kind with its parameters, and an honest preview."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from inferbench_tasks.arrivals.base import ARRIVALS
from inferbench_tasks.cli.arrivals import app, bars
from inferbench_tasks.errors import InputError


def _run(*arguments: str) -> str:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False).output


def _show(*arguments: str) -> Any:
    return json.loads(_run("show", *arguments, "-o", "json"))


def test_every_kind_is_listed_with_its_parameters() -> None:
    """As data for programs; as a table that names each kind once for people."""
    rows = json.loads(_run("-o", "json"))
    assert {row["kind"] for row in rows} == set(ARRIVALS)
    cv = next(row for row in rows if row["parameter"] == "cv")
    assert (cv["kind"], cv["loop"], cv["default"], cv["allowed"]) == (
        "gamma", "open", "required", "a number from 0.01 to 20",
    )  # fmt: skip
    table = _run()
    assert table.count("gamma") == 1
    assert all(kind in table for kind in ARRIVALS)


def test_a_preview_says_what_was_drawn() -> None:
    """Requests, gaps and course of exactly that schedule."""
    process = ARRIVALS.load("poisson").model_validate({"kind": "poisson", "rate_rps": 80})
    drawn = process.offsets_ns(5, np.random.default_rng(3))
    found = _show("poisson:80", "--duration", "5", "--seed", "3")
    assert found["requests"] == len(drawn) == sum(found["requests_over_time"])
    assert found["expected_rate_rps"] == 80
    assert found["gap_cv"] == pytest.approx(np.diff(drawn).std() / np.diff(drawn).mean())
    times = [row["offset_s"] for row in _show("poisson:80", "--duration", "5", "--seed", "3", "--offsets")]
    assert times == (drawn / 1e9).tolist()


def test_a_ramp_is_drawn_as_a_ramp() -> None:
    """The bars of a table rise."""
    found = _show("ramp:start_rate_rps=0,end_rate_rps=1000", "--duration", "20")
    assert found["requests_over_time"][-1] > 5 * found["requests_over_time"][3]
    assert bars([0, 1, 4, 8]) == " ▁▄█"
    assert bars([0, 0]) == "  "
    assert "█" in _run("show", "ramp:start_rate_rps=0,end_rate_rps=1000")


def test_a_trace_is_read_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a submission would from its own."""
    (tmp_path / "t.csv").write_text("TIMESTAMP\n1\n2\n4\n")
    monkeypatch.chdir(tmp_path)
    assert _show("trace:path=t.csv")["requests"] == 3


@pytest.mark.parametrize(
    ("process", "said"),
    [
        ("poisson:0", "rate_rps: Input should be greater than 0"),
        ("poison:80", "Unknown arrival process 'poison'"),
        ("gamma:80", "cv: Field required"),
        ("single_stream", "a closed loop has no schedule"),
        ("poisson:0.001", "0.01 requests are expected in 10 s"),
        ("trace:path=../x.csv", "must not leave the submission's folder"),
    ],
)
def test_bad_input_says_what_is_wrong(process: str, said: str) -> None:
    """Each as an InputError, which ends in exit code 2."""
    with pytest.raises(InputError, match=said):
        _run("show", process)
