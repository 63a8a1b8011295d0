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


def test_of_two_lengths_of_one_load_it_is_said_that_samples_per_second_are_judged() -> None:
    """They are compared (a batch of 1,000 and of 4,000 samples is answered at one rate); of two rates nothing but what
    no load changes."""

    def told(*arrivals: dict[str, object]) -> str:
        runs = [
            result(f"run-{at}", load={"arrivals": each, "batch_size": 1}) for at, each in enumerate(arrivals)
        ]
        return next(note for note in notes_of(runs, {}) if "offered another load" in note)

    offline = told({"kind": "offline", "requests": 1000}, {"kind": "offline", "requests": 4000})
    assert offline.endswith("that only its accuracy, its cold start and its samples/s are judged.")
    poisson = told({"kind": "poisson", "rate_rps": 10.0}, {"kind": "poisson", "rate_rps": 20.0})
    assert poisson.endswith("that only its accuracy and its cold start are judged.")
