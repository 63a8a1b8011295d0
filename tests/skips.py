"""What was skipped, one line for each reason: a reason that a command removes names that command."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterable

import pytest


def needs(package: str) -> pytest.MarkDecorator:
    """Skips a file's tests without a package. It is not imported here: each process of a suite reads every file."""
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"could not import {package!r}")


def lines(reports: Iterable[pytest.TestReport]) -> list[str]:
    """How many tests each reason kept from running, the most first."""
    reasons = Counter(_reason(report) for report in reports)
    return [
        f"{count} test{'s' * (count > 1)} skipped: {reason}"
        for reason, count in sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0]))
    ]


def _reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return text.removeprefix("Skipped: ")
