"""What the ledger makes of a verdict, by the user's choice; and which verdicts are worth a second attempt."""

from __future__ import annotations

import pytest

from inferbench_tasks.contracts.verdict import Reason, Verdict
from inferbench_tasks.metrics.interference import reasons

LEDGER = {
    "findings": [
        {
            "kind": "waited_for_cpu",
            "value": 0.9,
            "bound": 0.5,
            "quarantine": True,
            "text": "the server waited",
        },
        {"kind": "foreign_cpu", "value": 0.3, "bound": 0.1, "quarantine": False, "text": "others were busy"},
    ]
}


WAITED = Reason(
    text="interference: the server waited", check="interference.waited_for_cpu", figure=0.9, bound=0.5
)
FOREIGN = Reason(
    text="interference: others were busy", check="interference.foreign_cpu", figure=0.3, bound=0.1
)
ONLY_NOTED = Reason(
    text="interference: what else happened on the machine was only noted (INFERBENCH_INTERFERENCE=note)",
    check="interference.noted",
)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (None, [WAITED]),
        ("note", [ONLY_NOTED]),
        ("strict", [WAITED, FOREIGN]),
    ],
)
def test_what_counts_is_the_users_choice(mode: str | None, expected: list[Reason]) -> None:
    """Grave findings by default, all with ``strict``; each with its figure and its bound. With ``note`` none does."""
    assert reasons({**LEDGER, "mode": mode}) == expected


def test_a_run_whose_disturbances_were_only_noted_never_ranks() -> None:
    """It says so, quiet as its machine may have been; it is no reason to run it again."""
    for findings in (LEDGER["findings"], []):
        verdict = Verdict.judged(reasons({"findings": findings, "mode": "note"}))
        assert str(verdict) == (
            "disturbed: what else happened on the machine was only noted (INFERBENCH_INTERFERENCE=note)"
        )
        assert not verdict.valid and verdict.bounds_only and not verdict.disturbed
        assert Verdict.of(verdict.as_stored()) == verdict


def test_a_run_that_nobody_watched_is_not_valid() -> None:
    """Without a recording of the machine nobody knows what disturbed it, whatever the user chose."""
    for mode in (None, "note", "strict"):
        verdict = Verdict.judged(reasons({"findings": [], "watched": False, "mode": mode}))
        assert verdict.kind == "invalid" and "nobody watched the machine" in str(verdict)
        assert [reason.check for reason in verdict.reasons] == ["unwatched"] and not verdict.disturbed


def test_only_what_may_not_happen_again_is_worth_a_second_attempt() -> None:
    """A run that something else disturbed; not one whose load or server was at fault."""
    assert Verdict.judged([WAITED]).disturbed
    assert Verdict.judged([Reason(text="the sender was held up"), WAITED]).disturbed
    assert not Verdict.judged(
        [Reason(text="the rate was missed, interference: none", check="rate")]
    ).disturbed
    assert not Verdict.judged([]).disturbed
    assert not Verdict.failed("serve", "interference: never").disturbed


def test_the_same_holds_for_verdicts_that_were_stored_as_text() -> None:
    """Those of results of earlier versions."""
    assert Verdict.read("invalid: interference: the server waited").disturbed
    assert Verdict.read("invalid: the sender was held up; interference: the server waited").disturbed
    assert not Verdict.read("invalid: the rate was missed").disturbed
    assert not Verdict.read("valid").disturbed
    assert not Verdict.read("failed: serve, interference: never").disturbed
