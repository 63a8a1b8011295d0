"""A submission that searches for its rate: what it needs and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.pipelines.serving import SERVING
from inferbench_tasks.pipelines.serving_seconds import AROUND_LOAD_S
from inferbench_tasks.submission.rate import at_given_rates, max_rate_findings
from inferbench_tasks.submission.schema import JobSpec, Submission


def document(load: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A submission that is right, but for the changes."""
    fields = {
        "name": "x",
        "model": {"kind": "zoo", "name": "digits"},
        "load": {"arrivals": {"kind": "max_rate"}, "duration_s": 10, "warmup_s": 2, **(load or {})},
        "slo": {"p99_ms": 20},
        **more,
    }
    return {name: value for name, value in fields.items() if value is not None}


def job(**changes: Any) -> JobSpec:
    """Its only job."""
    return JobSpec.model_validate(document(**changes))


def paths(spec: JobSpec) -> list[str]:
    """Where its findings are."""
    return [finding.fields[0] for finding in max_rate_findings(spec)]


def test_an_objective_on_a_percentile_and_time_for_two_probes_are_enough() -> None:
    """Nothing is found."""
    assert paths(job()) == []
    assert paths(job(load={"arrivals": {"kind": "poisson", "rate_rps": 5}}, slo=None)) == []


@pytest.mark.parametrize("slo", [None, {"throughput_rps": 5}])
def test_without_a_percentile_that_is_bounded_there_is_nothing_to_keep(slo: Any) -> None:
    """No objective, and one that no rate could break."""
    assert paths(job(slo=slo)) == ["slo"]


@pytest.mark.parametrize(
    ("load", "path"),
    [
        ({"arrivals": {"kind": "max_rate", "limit_s": 20}}, "load.arrivals.limit_s"),
        ({"max_requests": 100}, "load.max_requests"),
        ({"expect": "overload"}, "load.expect"),
    ],
)
def test_what_does_not_go_with_a_search_is_refused_where_it_stands(load: dict[str, Any], path: str) -> None:
    """Too little time for two probes, a number of requests, overload."""
    assert paths(job(load=load)) == [path]


def test_a_search_is_expected_to_take_several_probes_and_no_longer_than_its_limit() -> None:
    """What schedulers plan with."""
    assert SERVING.expected_s(job()) > AROUND_LOAD_S + 5 * 12
    limited = job(load={"arrivals": {"kind": "max_rate", "limit_s": 60}})
    assert SERVING.expected_s(limited) == AROUND_LOAD_S + 60


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "load": {"arrivals": {"kind": "poisson", "rate_rps": 5}},
            "sweep": {"load.arrivals": [{"kind": "max_rate"}, {"kind": "poisson", "rate_rps": 5}]},
        },
    ],
)
def test_a_night_refuses_a_load_that_differs_each_time(changes: dict[str, Any]) -> None:
    """Whether the search is the load or a value of the sweep."""
    submission = Submission.model_validate(document(**changes))
    with pytest.raises(InputError, match="max_rate searches for its rate"):
        at_given_rates(submission, "A nightly comparison")
