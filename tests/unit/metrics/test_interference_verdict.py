"""What the ledger makes of a verdict, by the user's choice; and which verdicts are worth a second attempt."""

from __future__ import annotations

import pytest

from inferbench_tasks.contracts.verdict import Reason, Verdict
from inferbench_tasks.metrics.interference import MODE, reasons

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


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("", [WAITED]),
        ("note", []),
        ("strict", [WAITED, FOREIGN]),
    ],
)
def test_what_counts_is_the_users_choice(
    monkeypatch: pytest.MonkeyPatch, mode: str, expected: list[Reason]
) -> None:
    """Grave findings by default, none with ``note``, all with ``strict``; each with its figure and its bound."""
    monkeypatch.setenv(MODE, mode)
    assert reasons(LEDGER) == expected


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
