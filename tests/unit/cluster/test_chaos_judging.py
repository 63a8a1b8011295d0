"""What the benchmark of faults on hosts takes for wrong, on made-up rounds."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.chaos.judging import Measured, Round, Run, Undisturbed, afterwards, never_ended, table, wrong

KNOWN = Undisturbed(jobs=2, requests=180, answers=frozenset({"ab12 ff"}))
TRAINED = Undisturbed(jobs=1, requests=None, loss=0.25)
GOOD = tuple(Measured(job, "valid", 180, 0.0, "ab12 ff") for job in ("a", "b"))
DONE = (Run("a", "done"), Run("b", "done"))
GONE = r"lease|reach"


def test_a_round_as_it_should_be() -> None:
    """Both jobs once, all requests, the answers as ever; a result that is not valid needs not all requests."""
    assert wrong(Round("success", GOOD, DONE), KNOWN, "") == []
    some = (GOOD[0], Measured("b", "invalid", 150, 0.1, "ab12 ff"))
    assert wrong(Round("success", some, DONE), KNOWN, "") == []


def test_a_job_that_failed_for_what_was_done_to_it() -> None:
    """Its cause is one that the fault explains, and the other job has its result."""
    runs = (Run("a", "done"), Run("b", "failed", "failed: load, host-b can't be reached"))
    assert wrong(Round("failed", GOOD[:1], runs), KNOWN, GONE) == []
    (told,) = wrong(Round("failed", GOOD[:1], runs), KNOWN, "")
    assert "b failed, which this fault does not explain: failed: load, host-b" in told


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (Round("success", (GOOD[0], Measured("b", "valid", 179, 0.0, "ab12 ff")), DONE), "179 requests, 180 were"),
        (Round("success", (GOOD[0], Measured("b", "disturbed", 150, 0.1, "ab12 ff")), DONE), "150 requests, 180 were"),
        (Round("success", (GOOD[0], Measured("b", "valid", 180, 0.01, "ab12 ff")), DONE), "1.0% of its requests"),
        (Round("success", (GOOD[0], Measured("b", "valid", 180, 0.0, "ab12 fe")), DONE), "answers are others"),
        (Round("success", (GOOD[0], Measured("b", "disturbed", 180, 0.0, "cd34 ff")), DONE), "answers are others"),
        (Round("success", (GOOD[0], Measured("b", "valid", 180)), DONE), "answers were not looked at"),
        (Round("success", GOOD[:1], DONE), "success with results of 1 of 2 job(s)"),
        (Round("success", (*GOOD, GOOD[1]), DONE), "several results of b"),
        (Round("failed", GOOD, DONE), "failed with results of all jobs"),
        (Round("failed", GOOD[:1], DONE), "no run in PerfDB says why"),
        (Round("success", GOOD, (DONE[0], Run("b", "running"))), "not ended: b"),
        (Round("failed", GOOD, (DONE[0], Run("b", "failed", "lease"))), "failed, with a result: b"),
        (Round("failed", (), (Run("a", "failed", "KeyError: 'x'"),)), "does not explain: KeyError"),
        (Round("success", GOOD, DONE, left=("still leased: host-a.cpu-0",)), "still leased"),
    ],
)  # fmt: skip
def test_what_is_wrong_of_a_round(seen: Round, said: str) -> None:
    """Each by itself is found, and named."""
    assert any(said in told for told in wrong(seen, KNOWN, GONE))


@pytest.mark.parametrize(
    ("loss", "said"), [(None, "without a loss"), (0.4, "0.4, without a fault 0.25"), (float("nan"), "nan")]
)
def test_a_training_whose_loss_is_another(loss: float | None, said: str) -> None:
    """Some additions in another order are not; half as much again is, and what is no number."""
    runs = (Run("a", "done"),)
    same = Round("success", (Measured("a", "valid", loss=0.2501),), runs)
    assert wrong(same, TRAINED, "") == []
    (told,) = wrong(Round("success", (Measured("a", "valid", loss=loss),), runs), TRAINED, "")
    assert said in told


def row(kind: str = "host killed", **other: Any) -> dict[str, Any]:
    fields = {"seed": 1, "fault": kind, "work": "sweep", "met": True, "jobs": 2, "failed": [], "wrong": []}
    return fields | other


def test_a_system_that_fails_every_job_fails() -> None:
    """However well each failure is explained: a tenth of all jobs may, and no kind of fault may take them all."""
    lost = "failed: load, lease lost"
    assert afterwards([row() for _ in range(20)]) == []
    all_lost = afterwards([row(failed=[lost, lost]) for _ in range(20)])
    assert any("40 of 40 jobs failed" in told for told in all_lost)
    few = [row() for _ in range(30)] + [row("disk full", failed=[lost]) for _ in range(2)]
    assert afterwards(few) == ["disk full: jobs failed in each of 2 rounds"]
    assert afterwards([*few, row("disk full")]) == []


def test_a_fault_that_no_job_met_proves_nothing() -> None:
    """A kind whose rounds all missed is told; so are rounds with something wrong, and no round at all."""
    rows = [row(), row("cache corrupted", met=False)]
    assert afterwards(rows) == ["cache corrupted: no job met it in 1 round(s)"]
    assert afterwards([row(wrong=["x"]), row()]) == ["1 of 2 rounds after which something did not hold"]
    assert afterwards([]) == ["no round was done"]


def test_the_table_counts_what_was_met() -> None:
    """A row for each kind with causes and what did not hold; seeds, and how many rounds are not counted."""
    rows = [
        row(),
        row(work="away", jobs=1, failed=["a|b"]),
        row(met=False),
        row("disk full", seed=2, wrong=["x"]),
    ]
    assert table(rows).splitlines() == [
        "| fault | rounds | amid | jobs | failed | did not hold |",
        "|---|---|---|---|---|---|",
        "| host killed | 2 | away 1, sweep 1 | 3 | 1 (a\\|b) | 0 |",
        "| disk full | 1 | sweep 1 | 2 | 0 | 1 |",
        "",
        "Seeds 1, 2: 3 faults; 1 more that no job met are not counted.",
    ]


def test_jobs_that_never_end_are_a_round_that_did_not_hold() -> None:
    """The worst outcome has its row: it counts as a fault that was met, and the table and the verdict tell of it."""
    row = never_ended(
        {"seed": 1, "at": 0, "fault": "disk full", "work": "sweep"}, 2, "still running: job-001"
    )
    assert afterwards([row]) == ["1 of 1 rounds after which something did not hold"]
    assert "| disk full | 1 | sweep 1 | 2 | 0 | 1 |" in table([row])
