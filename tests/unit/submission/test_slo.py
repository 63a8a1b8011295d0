"""The objective: bounds by the figures' names, those of packages among them; names of earlier versions are read."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.submission.schema import JobSpec, serving_only
from inferbench_tasks.submission.slo import SloSpec
from inferbench_tasks.submission.sweep import expand

BASE = """\
name: x
model: {kind: zoo, name: digits}
load: {arrivals: {kind: poisson, rate_rps: 50}}
"""


def slo(**bounds: Any) -> SloSpec:
    return SloSpec.model_validate(bounds)


def test_every_figure_of_the_table_may_be_bounded() -> None:
    """On the side that is the worse one."""
    bounds = {figure.name: 0.5 for figure in FIGURES.offered()}
    assert slo(**bounds).bounds() == bounds


@pytest.mark.parametrize("name", [figure.name for figure in FIGURES.values() if figure.streamed])
def test_figures_of_streamed_tokens_bound_no_whole_answers(name: str) -> None:
    """A submission's answers are whole: such a bound could never be met."""
    with pytest.raises(ValidationError, match="only streamed tokens have it"):
        slo(**{name: 0.5})


def test_only_what_is_bounded_is_dumped() -> None:
    """And the share of errors, which has a default; what is dumped is read again."""
    given = slo(p99_ms=20, cpu_ms_per_sample=3)
    assert given.model_dump() == {"p99_ms": 20.0, "error_ratio": 0.0, "cpu_ms_per_sample": 3.0}
    assert SloSpec.model_validate(given.model_dump()) == given == pickle.loads(pickle.dumps(given))


def test_earlier_names_are_read_as_todays() -> None:
    """As every stored job and many a YAML has them; a name of today and an earlier one of the same are refused."""
    earlier = slo(latency_p99_ms=20, latency_p50_ms=None, min_throughput_rps=5, max_error_ratio=0.1)
    assert earlier == slo(p99_ms=20, throughput_rps=5, error_ratio=0.1)
    assert earlier.percentile_bounds_ms() == {"p99": 20.0}
    with pytest.raises(ValidationError, match="another name of p99_ms, which is given too"):
        slo(latency_p99_ms=20, p99_ms=30)


def test_a_sweep_may_use_either_name() -> None:
    """Over a bound that the submission has under the other one: the swept value counts, at every point."""
    points = []
    for base, swept in (("latency_p99_ms", "p99_ms"), ("p99_ms", "latency_p99_ms"), ("p99_ms", "p99_ms")):
        text = (
            f"{BASE}slo: {{{base}: 10}}\nsweep:\n  slo.{swept}: [20, 40]\n  zip: {{slo.{base[-6:]}: [1]}}\n"
        )
        text = text.replace("  zip: {slo.p99_ms: [1]}\n", "")
        jobs = expand(serving_only(read_submission_text(text, "x.yaml", INSTALLED), ""), INSTALLED)
        assert [job.spec.slo.bound("p99_ms") for job in jobs if job.spec.slo] == [20.0, 40.0]
        points.append([(job.point, job.digest) for job in jobs])
    assert points[0] == points[1] == points[2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("slo: {p98_ms: 20}", "x.yaml:4: slo.p98_ms: unknown key; did you mean 'p9"),
        ("slo:\n  latency_p99_ms: -1", "x.yaml:5: slo.p99_ms: must be a number above 0; got -1"),
        ("slo: {accuracy: 1.5}", "x.yaml:4: slo.accuracy_ratio: must be a number from 0 to 1; got 1.5"),
        ("slo: {cpu_ms_per_sample: fast}", "x.yaml:4: slo.cpu_ms_per_sample: must be a number; got 'fast'"),
    ],
)
def test_what_is_wrong_is_told_at_its_line(line: str, message: str) -> None:
    """By today's name, and with what is allowed."""
    with pytest.raises(SubmissionError) as caught:
        read_submission_text(f"{BASE}{line}\n", "x.yaml", INSTALLED)
    (problem,) = caught.value.problems
    assert str(problem).startswith(message)


def test_a_stored_job_of_an_earlier_version_is_read() -> None:
    """With every bound spelled out, as jobs were dumped then."""
    bounds = {f"latency_{name}_ms": None for name in ("p50", "p90", "p95", "p999")}
    job = {
        "name": "x", "model": {"kind": "zoo", "name": "digits"},
        "load": {"arrivals": {"kind": "poisson", "rate_rps": 5}},
        "slo": {**bounds, "latency_p99_ms": 20.0, "min_throughput_rps": None, "max_error_ratio": 0.0},
    }  # fmt: skip
    assert JobSpec.model_validate(job).slo == slo(p99_ms=20)
