"""``trace.batch_size``: what the requests that are asked one by one can't have."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import JobSpec

_FIELD = "trace.batch_size"


def traced_batch_findings(spec: JobSpec) -> Iterator[Finding]:
    """A batch of a load that is not there, and one that the server would refuse every time."""
    trace, batching = spec.trace, spec.serve.batching
    if trace is None or trace.batch_size is None or trace.one_in is not None:
        return
    if trace.batch_size == "load":  # whose batch is judged by itself
        if spec.load is None:
            yield Finding((_FIELD, "load"), "is that of the load, and there is none; give a number")
    elif batching is not None and trace.batch_size > batching.max_batch_size:
        yield Finding(
            (_FIELD, "serve.batching.max_batch_size"),
            f"{trace.batch_size} samples per request are more than serve.batching.max_batch_size "
            f"({batching.max_batch_size}) lets the server take",
        )
