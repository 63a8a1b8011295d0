"""What the ledger makes of a verdict, by the user's choice; and which verdicts are worth a second attempt."""

from __future__ import annotations

import pytest

from inferbench_tasks.metrics.interference import MODE, quarantined, reasons

LEDGER = {
    "findings": [
        {"kind": "waited_for_cpu", "value": 0.9, "quarantine": True, "text": "the server waited"},
        {"kind": "foreign_cpu", "value": 0.3, "quarantine": False, "text": "others were busy"},
    ]
}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("", ["interference: the server waited"]),
        ("note", []),
        ("strict", ["interference: the server waited", "interference: others were busy"]),
    ],
)
def test_what_counts_is_the_users_choice(
    monkeypatch: pytest.MonkeyPatch, mode: str, expected: list[str]
) -> None:
    """Grave findings by default, none with ``note``, all with ``strict``."""
    monkeypatch.setenv(MODE, mode)
    assert reasons(LEDGER) == expected


def test_only_what_may_not_happen_again_is_worth_a_second_attempt() -> None:
    """A run that something else disturbed; not one whose load or server was at fault."""
    assert quarantined("invalid: interference: the server waited")
    assert quarantined("invalid: the sender was held up; interference: the server waited")
    assert not quarantined("invalid: the rate was missed")
    assert not quarantined("valid")
    assert not quarantined("failed: serve, interference: never")
