"""Quiet windows beside the whole, in the report and after a disturbed run."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.analysis.report.quiet import quiet_sentence, quiet_table
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.report.tables import interference_table
from inferbench_tasks.metrics import interference
from tests.unit.analysis.builders import records, view

QUIET: dict[str, Any] = {
    "time_ratio": 0.6, "request_ratio": 0.58, "windows": 7, "longest_s": 1.5, "reason": None,
    "cut_s": {"steal": 1.0, "recovery": 2.2},
    "latency_ms": {
        "p50": 1.25, "p95": 2.5, "p99": None, "ci95": {"p50": [1.2, 1.3], "p95": None, "p99": None}, "counts": {},
        "reasons": {"p99": "too few"},
    },
}  # fmt: skip
DISTURBED = "disturbed: the hypervisor took 12.0% of the machine's CPU time (at most 5%)"


def _view(block: dict[str, Any], verdict: str = DISTURBED) -> RunView:
    whole = view(records(5.0))
    return view(records(5.0), verdict=verdict, summary={**whole.summary, "quiet": block})


def test_both_stand_side_by_side_with_what_was_kept_and_cut() -> None:
    """The whole's are bounds in a disturbed run; what is missing has its reason."""
    (table,) = quiet_table([_view(QUIET)])
    p50, p95, p99 = table["rows"]
    assert p50[1:3] == ["60% (58%)", "recovery 2.2 s, steal 1 s"] and p95[:3] == ["", "", ""]
    assert p50[4].startswith("≤ ") and p50[5:] == ["1.25 [1.2, 1.3]", ""]
    assert p95[3] == "p95" and p95[5:] == ["2.5", ""]
    assert p99[5:] == ["–", "too few"]
    assert "rankings" in table["note"]


def test_a_run_of_which_nothing_was_cut_needs_no_table() -> None:
    """The two would be the same; nor does a result of before they were stored."""
    whole = {**QUIET, "time_ratio": 1.0, "cut_s": {}}
    assert quiet_table([_view(whole, "valid"), view(records(5.0))]) == []


def test_after_a_disturbed_run_a_sentence_says_what_can_still_be_said() -> None:
    """Or why nothing can; after a valid one there is none."""
    text = "in its quiet windows (60% (58%)): p50 1.25 [1.2, 1.3] ms, p95 2.5 ms; they do not rank"
    assert quiet_sentence(_view(QUIET)) == text.replace("60% (58%)", "60% of the time, 58% of the requests")
    none = {**QUIET, "latency_ms": None, "reason": "quiet for 4% of the time only (at least 20%)"}
    assert quiet_sentence(_view(none)) == f"no quiet windows: {none['reason']}"
    assert quiet_sentence(_view(QUIET, "valid")) is None


def test_the_table_of_disturbances_says_what_the_verdict_says() -> None:
    """15.26: a grave finding disturbs the run, a small one for who wants it strict, and noted ones decide nothing."""
    grave = {"kind": "steal", "value": 0.12, "bound": 0.05, "quarantine": True, "text": "a"}
    small = {"kind": "foreign_cpu", "value": 0.2, "bound": 0.1, "quarantine": False, "text": "b"}
    for mode, words in (
        (None, ["disturbed", "noted"]),
        ("strict", ["disturbed"] * 2),
        ("note", ["noted"] * 2),
    ):
        ledger = {"findings": [grave, small], "not_watched": [], "watched": True, "mode": mode}
        whole = view(records(5.0))
        run = view(records(5.0), summary={**whole.summary, "interference": ledger})
        (table,) = interference_table([run])
        assert [row[2] for row in table["rows"]] == words, mode
        counted = {str(reason.check).rpartition(".")[2] for reason in interference.reasons(ledger)} - {
            "noted"
        }
        assert len(counted) == words.count("disturbed")
