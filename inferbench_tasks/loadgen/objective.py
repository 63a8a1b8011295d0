"""Whether a run kept its objective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferbench_tasks.figures import FIGURES
from inferbench_tasks.submission.slo import SloSpec


def judge(slo: SloSpec | None, summary: Mapping[str, Any]) -> dict[str, Any] | None:
    """{met, checks}: each bounded figure of the summary as {value, bound, met}; None without an objective.

    ``met`` is None where there is no value: too few samples for a percentile, or nothing that measured it.
    """
    if slo is None:
        return None
    checks = {name: _check(name, bound, summary) for name, bound in slo.bounds().items()}
    verdicts = [check["met"] for check in checks.values()]
    return {"met": False if False in verdicts else None if None in verdicts else True, "checks": checks}


def _check(name: str, bound: float, summary: Mapping[str, Any]) -> dict[str, Any]:
    figure = FIGURES[name]
    value = figure.stored(summary)
    met = None if value is None else value >= bound if figure.higher else value <= bound
    return {"value": value, "bound": bound, "met": met}
