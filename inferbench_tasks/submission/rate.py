"""A search for the highest rate that keeps the objective: what it needs, and what can't go with it."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.arrivals.max_rate import MaxRate
from inferbench_tasks.errors import InputError
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import JobSpec, Submission

_HERE = "load.arrivals"


def at_given_rates(submission: Submission, what: str) -> Submission:
    """The same; InputError, which says what ``what`` needs, where any of its jobs searches for its rate."""
    swept = submission.sweep.model_dump(mode="json") if submission.sweep else None
    if isinstance(submission.traffic.arrivals, MaxRate) or "max_rate" in repr(swept):
        raise InputError(
            f"{what} needs a load that is the same each time; max_rate searches for its rate. Give a rate, for "
            "instance arrivals: {kind: poisson, rate_rps: 100}",
            field="load.arrivals",
        )
    return submission


def max_rate_findings(spec: JobSpec) -> Iterator[Finding]:
    """What a search for the highest rate needs, and what can't go with it."""
    load, arrivals = spec.traffic, spec.traffic.arrivals
    if not isinstance(arrivals, MaxRate):
        return
    if spec.slo is None or not spec.slo.percentile_bounds_ms():
        yield Finding(
            ("slo", _HERE),
            "max_rate looks for the highest rate that keeps the objective: bound a percentile of the latency, for "
            "instance slo.p99_ms",
        )
    least_s = arrivals.least_s(load.warmup_s + load.duration_s)
    if arrivals.limit_s < least_s:
        yield Finding(
            (f"{_HERE}.limit_s", "load.duration_s", "load.warmup_s"),
            f"{arrivals.limit_s:g} s are too short: a probe takes load.warmup_s + load.duration_s and a little more, "
            f"and two of them, the least there can be, {least_s:g} s",
        )
    if load.max_requests is not None:
        yield Finding(("load.max_requests", _HERE), "a probe of max_rate lasts load.duration_s; leave it out")
    if load.expect is not None:
        message = "max_rate looks for the rate without overload; leave expect out"
        yield Finding(("load.expect", _HERE), message)
    if spec.share is not None:
        message = "max_rate measures a model that has its device alone; leave share out, or give a rate"
        yield Finding(("share", _HERE), message)
