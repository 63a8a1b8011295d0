"""What a trace of a share of a load's requests (``trace.one_in``) needs, and what does not go with it."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.traced import USUAL_TRACED

_FIELD = "trace.one_in"


def sampled_findings(spec: JobSpec) -> Iterator[Finding]:
    """Nothing of a trace that asks requests one by one."""
    trace, load = spec.trace, spec.load
    if trace is None or trace.one_in is None:
        return
    if load is None:
        yield Finding(
            (_FIELD, "load"), "is of the requests of a load, and there is none; add one, or leave one_in out"
        )
        return
    if trace.requests != USUAL_TRACED:
        yield _finding(
            "trace.requests",
            "trace.requests says how many are asked one by one; how many a load has, its rate and duration say: leave "
            "trace.requests out",
        )
    if trace.batch_size is not None:
        yield _finding(
            "trace.batch_size",
            "requests of a load have as many samples as load.batch_size says: leave trace.batch_size out",
        )
    if trace.deepest not in (None, "model"):
        yield _finding(
            "trace.deepest",
            f"a run of the runtime is of all requests in its batch, so only model can be told of some; it is "
            f"{trace.deepest}",
        )
    if load.arrivals.kind == "max_rate":
        yield _finding("load.arrivals", "a search has many loads; give the rate that is to be traced")
    if load.engine != "inferbench":
        yield _finding("load.engine", "MLPerf's LoadGen numbers its queries itself; use inferbench")
    if load.network != "lan":
        yield _finding("load.network", f"requests of a load are traced over lan only; it is {load.network}")


def _finding(other: str, message: str) -> Finding:
    return Finding((_FIELD, other), message)
