"""The verdict on a load: its certificate, how it ended, and what else happened on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.contracts.verdict import Reason, Verdict, reasons_of
from inferbench_tasks.metrics import interference
from inferbench_tasks.metrics.sender_waits import machines_part


def judge(
    certificate: dict[str, Any],
    stopped_early: str | None,
    ledger: dict[str, Any],
    beside: Sequence[dict[str, Any]] = (),
    answers: Sequence[Reason] = (),
) -> Verdict:
    """Valid, or invalid with every reason. Whether the SLO was met is no part of it.

    ``beside``: the neighbours of a share, see ``sharing.neighbours``. ``answers``: what is wrong
    with the answers themselves, see ``stages.answers_judged``.
    """
    from inferbench_tasks.loadgen.evidence import ended_early
    from inferbench_tasks.stages import neighbours

    reasons = [ended_early(stopped_early)] if stopped_early else []
    reasons += [
        *machines_part(reasons_of(certificate), ledger),
        *neighbours.reasons(beside),
        *interference.reasons(ledger),
        *answers,
    ]
    if not certificate["valid"] and not reasons:
        reasons = [Reason(check="certificate", text="the certificate of the load is not valid")]
    return Verdict.judged(reasons)
