"""``inferbench simulate`` as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferbench_tasks.cli.main import main


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["simulate", *arguments])
    return int(end.value.code or 0)


def test_it_prints_figures_and_draws_figure_15(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ratios to RR+FCFS and to the clairvoyant bound on stdout; the figure needs no network."""
    html = tmp_path / "f.html"
    assert (
        run("A3", "--jobs", "160", "-p", "rr_fcfs,qa_sjf,late_sjf_aged", "--html", str(html), "-o", "json")
        == 0
    )
    rows = {row["policy"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["rr_fcfs"]["speedup"] == 1.0
    assert rows["late_sjf_aged"]["speedup"] > 1.5
    assert rows["late_sjf_aged"]["vs_clairvoyant"] >= 1.0
    assert {"mean_jct_s", "p50_jct_s", "p95_jct_s", "p99_jct_s", "longest_wait_s"} <= rows["qa_sjf"].keys()
    text = html.read_text(encoding="utf-8")
    assert "CDF of the job completion time" in text
    assert "<script src=" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.csv",), "No trace or file"),
        (("A1", "-p", "fastest"), "Unknown scheduling policy 'fastest'"),
    ],
)
def test_bad_input_ends_with_2(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a message that says what is known."""
    assert run(*arguments) == 2
    assert message in capsys.readouterr().err
