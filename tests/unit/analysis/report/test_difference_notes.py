"""What a reader of a comparison is told beside its figures."""

from __future__ import annotations

from inferbench_tasks.analysis.report.difference_notes import notes_of
from inferbench_tasks.perfdb.documents import ResultDocument
from tests.unit.perfdb.builders import result


def priced(run_id: str, date: str | None) -> ResultDocument:
    """At the hourly rate of that date; None: without a price."""
    instances = [{"instance": "c7i.large", "usd_per_hour": 0.09, "usd_per_1k": 1.0, "date": date}]
    cost = {"usd_per_1k": 1.0, "instances": instances} if date else {"usd_per_1k": None, "reason": "no name"}
    return result(run_id, summary={"throughput_rps": 10.0, "cost": cost})


def test_costs_of_two_dates_are_said_to_be() -> None:
    """A rate that fell between two runs makes the later one look cheaper, whatever its server did."""

    def told(*dates: str | None) -> list[str]:
        runs = [priced(f"run-{at}", date) for at, date in enumerate(dates)]
        return [note for note in notes_of(runs, {}) if "hourly rates" in note]

    assert told("2025-10-01", "2026-02-01") == [
        "Their costs are by hourly rates of different dates (2025-10-01; 2026-02-01): a difference may be the price "
        "list's, and not the servers'."
    ]
    assert told("2025-10-01", "2025-10-01") == told("2025-10-01", None) == []
