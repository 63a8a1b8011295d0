"""MLPerf's own LoadGen as the scheduler, over our transport: its four scenarios, its logs, its verdict.

LoadGen decides when each query is issued and judges the run; our client sends the requests, and every
one is recorded as in any other load (see ``mlperf_driver``). What it says is MLPerf LoadGen's verdict on
a load of this length with these settings. It is not an MLPerf result: that takes MLPerf's rules, models,
data sets and review.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

SUMMARY, DETAIL = "mlperf_log_summary.txt", "mlperf_log_detail.txt"
#: Of its accuracy mode only, see ``mlperf_accuracy``.
ACCURACY = "mlperf_log_accuracy.json"
NOTE = "MLPerf LoadGen, not an MLPerf result"
_PREFIX = ":::MLLOG "


class MlperfVerdict(BaseModel):
    """``valid``: LoadGen's own verdict, ``reasons`` its reasons against. ``queries``: as it counted them.

    ``summary``: every "name : value" of its summary, as text. ``logs``: its files, as paths.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    note: str = NOTE
    scenario: str
    valid: bool
    reasons: tuple[str, ...]
    queries: int
    samples_per_query: int
    summary: dict[str, str]
    logs: tuple[str, ...]

    def words(self) -> str:
        """What people see of it, in one line."""
        said = "VALID" if self.valid else f"INVALID: {'; '.join(self.reasons)}"
        return f"{self.note}: {self.scenario}, {self.queries:,} queries: {said}"


def read_verdict(folder: Path) -> MlperfVerdict | None:
    """What LoadGen left in ``folder``; None if it did not come to its end."""
    summary_path, detail_path = folder / SUMMARY, folder / DETAIL
    if not summary_path.exists() or not detail_path.exists():
        return None
    summary = parse_summary(summary_path.read_text(errors="replace"))
    detail = parse_detail(detail_path.read_text(errors="replace"))
    if "Result is" not in summary or "result_query_count" not in detail:
        return None
    valid = summary["Result is"] == "VALID"
    reasons = [" ".join(str(text).split()) for text in detail.get("result_invalid_reason", [])]
    unmet = [f"{name}: {value}" for name, value in summary.items() if value.upper() == "NO"]
    return MlperfVerdict(
        scenario=summary.get("Scenario", "?"),
        valid=valid,
        reasons=() if valid else tuple(filter(None, reasons)) or tuple(unmet) or ("LoadGen gives no reason",),
        queries=int(detail["result_query_count"][-1]),
        samples_per_query=int(summary.get("samples_per_query", 1)),
        summary=summary,
        logs=(str(summary_path), str(detail_path)),
    )


def forget(folder: Path) -> None:
    """Remove the logs of an earlier load."""
    for name in (SUMMARY, DETAIL, ACCURACY):
        (folder / name).unlink(missing_ok=True)


def parse_summary(text: str) -> dict[str, str]:
    """LoadGen's summary as names and values."""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, _, value in pairs if value.strip()}


def parse_detail(text: str) -> dict[str, list[Any]]:
    """LoadGen's detailed log: the values of each key, in order; a line that was cut off is left out."""
    values: dict[str, list[Any]] = {}
    for entry in _entries(text):
        values.setdefault(entry["key"], []).append(entry["value"])
    return values


def parse_errors(text: str) -> tuple[str, ...]:
    """What LoadGen's detailed log marks as errors, in its words."""
    errors = (entry for entry in _entries(text) if entry.get("metadata", {}).get("is_error"))
    return tuple(" ".join(f"{entry['key']}: {entry['value']}".split()) for entry in errors)


def _entries(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if not line.startswith(_PREFIX):
            continue
        try:
            yield json.loads(line[len(_PREFIX) :])
        except ValueError:
            continue
