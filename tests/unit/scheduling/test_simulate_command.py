"""``inferbench simulate`` as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

from inferbench_tasks.cli.main import main
from inferbench_tasks.scheduling.figure15 import curve
from inferbench_tasks.scheduling.outcome import JobOutcome, Outcome, times_as_long


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


def test_a_job_that_a_policy_gave_up_makes_it_no_faster() -> None:
    """Ten seconds and a hundred; who gives the longer job up has a mean of 10 s beside 55, and is as fast: 1, and not
    5.5. Of no job that finished under both there is no ratio."""
    whole = Outcome("whole", "t", (ended("short", 10.0), ended("long", 100.0)), ())
    gave_up = Outcome("gave-up", "t", (ended("short", 10.0), ended("long", 40.0, "rejected")), ())
    assert gave_up.mean_jct_s() == 10 and whole.mean_jct_s() == 55
    assert times_as_long(whole, gave_up) == times_as_long(gave_up, whole) == 1.0
    none = Outcome("none", "t", (ended("long", 1.0, "rejected"),), (ended("short", 1.0, "unfinished"),))
    assert times_as_long(whole, none) is None


def test_a_curve_ends_at_the_share_that_finished() -> None:
    """Of four jobs one policy finishes two, after one and two minutes, and never the others: half of all, and not all.
    Who finishes all four after one to four minutes has as many after two."""
    jobs = ended("a", 60.0), ended("b", 120.0), ended("c", 180.0), ended("d", 240.0)
    given_up = ended("c", 90.0, "rejected")
    some = Outcome("some", "t", (jobs[0], given_up, jobs[1]), (ended("d", 120.0, "unfinished"),))
    assert curve(some) == ([1.0, 2.0], [0.25, 0.5])
    assert curve(Outcome("all", "t", jobs, ())) == ([1.0, 2.0, 3.0, 4.0], [0.25, 0.5, 0.75, 1.0])


def test_short_jobs_have_their_digits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two jobs of 40 and 60 ms one after the other on one device: 40 and 100 ms, 70 in the mean, and not 0.1 s."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("job_id,submit_s,duration_s\na,0,0.04\nb,0,0.06\n")
    assert run("t.csv", "--devices", "1", "-p", "rr_fcfs", "-o", "json") == 0
    [row] = json.loads(capsys.readouterr().out)
    assert row["mean_jct_s"] == pytest.approx(0.07) and row["p99_jct_s"] == pytest.approx(0.1)
    assert row["longest_wait_s"] == pytest.approx(0.04)


def ended(
    job_id: str, end_s: float, status: Literal["finished", "rejected", "unfinished"] = "finished"
) -> JobOutcome:
    """Submitted at 0."""
    return JobOutcome(job_id, "t", 0.0, 0.0, end_s, status, 1, 1, None, "n")


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
