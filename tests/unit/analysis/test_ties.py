"""Results that share a rank say why: they differ by noise only, or nobody knows which is better."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.analysis.certainty import (
    LOWER_BOUND,
    METHOD_WRONG,
    NO_INTERVAL,
    NOT_KNOWN,
    WITHIN_NOISE,
)
from inferbench_tasks.analysis.recommend.leaderboard import ranked
from inferbench_tasks.analysis.systems.found import sorted_in
from inferbench_tasks.analysis.systems.table import rows as table_rows
from inferbench_tasks.figures import FIGURES
from tests.unit.perfdb.builders import result


def ties(figure: str, *summaries: dict[str, Any], **changes: Any) -> list[tuple[int, str | None]]:
    """Rank and tie of each, in their order."""
    documents = [
        result(f"run-{at}", summary=summary, **changes).model_dump() for at, summary in enumerate(summaries)
    ]
    return [(row["rank"], row["tie"]) for row in ranked(documents, FIGURES[figure], ())]


def p99(value: float, bounds: list[float] | None) -> dict[str, Any]:
    """A summary with that p99, whose interval was looked for."""
    return {"e2e_latency_ms": {"p99": value, "ci95": {"p99": bounds}}}


def test_without_an_interval_62_percent_are_no_noise_but_not_known() -> None:
    """0.643 and 1.04 ms, neither bounded: ln 1.617 / hypot(25%, 25%) = 1.36, 88% by t with 6 degrees, below 90%. With
    intervals of +-10% they are two ranks: 0.4807 / hypot(0.051, 0.051) = 6.7; within 2% it is noise.
    """
    assert ties("p99_ms", p99(0.643, None), p99(1.04, None)) == [(1, None), (1, NO_INTERVAL)]
    bounded = p99(0.643, [0.58, 0.71]), p99(1.04, [0.94, 1.14])
    assert ties("p99_ms", *bounded) == [(1, None), (2, None)]
    assert ties("p99_ms", bounded[0], p99(0.655, [0.59, 0.72])) == [(1, None), (1, WITHIN_NOISE)]
    assert NO_INTERVAL.startswith(NOT_KNOWN)


def test_a_figure_that_states_no_interval_is_noise_as_far_as_runs_usually_differ() -> None:
    """Throughputs by 2%, with 5,000 answers each."""
    runs = [{"throughput_rps": value, "ok": 5000} for value in (100.0, 98.0)]
    assert ties("throughput_rps", *runs) == [(1, None), (1, WITHIN_NOISE)]


def test_a_method_that_may_be_wrong_by_more_than_two_machines_are_apart_does_not_tell() -> None:
    """60% of an estimate hides 62%; 2% are noise as well."""

    def energy(joule: float) -> dict[str, Any]:
        method = {"method": "tdp_estimate", "uncertainty_ratio": 0.6}
        return {"energy": {"joule_per_sample": joule, **method}}

    assert ties("joule_per_sample", energy(0.643), energy(1.04)) == [(1, None), (1, METHOD_WRONG)]
    assert ties("joule_per_sample", energy(1.0), energy(1.02)) == [(1, None), (1, WITHIN_NOISE)]


def test_a_search_that_ended_early_may_be_the_best() -> None:
    """Its rate is a lower bound."""

    def search(rate: float, bounds: list[float] | None) -> dict[str, Any]:
        return {"max_rate": {"samples_per_s": rate, "interval": {"samples_per_s": bounds}}}

    rates = search(800.0, [780.0, 820.0]), search(400.0, None)
    assert ties("max_rate_samples_per_s", *rates) == [(1, None), (1, LOWER_BOUND)]


def test_the_table_of_systems_says_it_too() -> None:
    """Of the same two p99, in the column beside the rank."""

    def served(name: str, backend: str, value: float) -> dict[str, Any]:
        return result(
            name,
            backend={"kind": backend, "version": "1", "settings": {"threads": 1}},
            load={"arrivals": {"kind": "closed_loop", "concurrency": 1}, "batch_size": 1},
            summary=p99(value, None),
        ).model_dump()

    documents = [served("a", "onnxruntime", 0.643), served("b", "openvino", 1.04)]
    rows = {row["online_run"]: row for row in table_rows(sorted_in(documents), lambda run: None)}
    assert [(rows[n]["rank_p99_ms"], rows[n]["tie_p99_ms"]) for n in "ab"] == [(1, None), (1, NO_INTERVAL)]
