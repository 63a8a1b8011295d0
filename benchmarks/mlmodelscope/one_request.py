"""One request, seen from its client down to what the layers run: on which runtimes all six levels are told of it.

    python -m benchmarks.mlmodelscope.one_request [--model mobilenet_v2] [--requests 3] [--data FOLDER]

On TorchScript, OpenVINO and ONNX Runtime a submission with a `trace` block, down to the deepest level that the backend
knows, by `inferbench run --inline`; of what PerfDB has of it then the request with the most spans. Passed where it has
at least 60 spans of one trace id, each but the request itself with its parent, none more than 50 us beyond it, and all
six levels: application, model, framework, layer and library as spans, hardware as attributes of the run and of the
request in the server. A level that nobody tells of is named with the reason, and the runtime has failed.

Then Triton in the same way, which tells of the level model alone: passed where its own spans, as it sends them over
OTLP, are of the request's trace, lie within the request's span, and one of them is its compute.

Exit code 1 where one failed, 2 where one could not be asked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.submitted import NoResults, served_format, submitted
from inferbench_tasks.analysis.report.runs import stored_table
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.servers.sources.absent import ABSENT
from inferbench_tasks.tracing.assemble import TOLERANCE_NS
from inferbench_tasks.tracing.queries import spans_file
from inferbench_tasks.tracing.spans import LEVELS, Span, spans_of

LEAST_SPANS = 60
HARDWARE = "hardware"
SIX = (*LEVELS, HARDWARE)
#: Of these a run has the thread's and the process's.
FIGURES = ("cpu_ns", "switches_voluntary", "switches_involuntary", "faults_minor", "faults_major")
#: Runtime -> backend.
RUNTIMES = {
    "TorchScript": "torchscript",
    "OpenVINO": "openvino",
    "ONNX Runtime": "onnxruntime",
    "Triton": "triton",
}


@dataclass(frozen=True)
class Wanted:
    """What a request has to have. ``inner``: a span of that name."""

    spans: int = LEAST_SPANS
    levels: Sequence[str] = SIX
    inner: str = ""


WHOLE = Wanted()
WANTED = {"Triton": Wanted(3, ("application", "model"), "compute")}


@dataclass
class Finding:
    """Of one request. ``beyond_us``: the most that a span reaches beyond its parent; ``wrong``: what is not as it has
    to be, in words.
    """

    what: str
    spans: int
    levels: Sequence[str]
    beyond_us: float
    wrong: list[str] = field(default_factory=list)

    def words(self) -> str:
        """A line."""
        return (
            f"{self.what}: {self.spans} spans; {', '.join(self.levels)}; {self.beyond_us:.1f} us beyond a parent at "
            f"most: {'FAILED: ' + '; '.join(self.wrong) if self.wrong else 'passed'}"
        )


def judged(what: str, spans: Sequence[Span], absent: dict[str, str], wanted: Wanted = WHOLE) -> Finding:
    """The spans of one request, of one trace id; ``absent``: level -> why this runtime does not tell of it."""
    by_number = {span.number: span for span in spans}
    wrong: list[str] = []
    if len(spans) < wanted.spans:
        wrong.append(f"fewer than {wanted.spans} spans")
    if wanted.inner and not any(span.name == wanted.inner for span in spans):
        wrong.append(f"no span {wanted.inner}")
    if len({span.trace_id for span in spans}) != 1 or len(by_number) != len(spans):
        wrong.append("several traces, or spans of one number")
    beyond_ns = 0
    for span in spans:
        if span.duration_ns < 0:
            wrong.append(f"{span.name} ends before it begins")
        if span.parent < 0:
            continue
        around = by_number.get(span.parent)
        if around is None:
            wrong.append(f"{span.name} has no parent")
            continue
        beyond_ns = max(beyond_ns, around.start_ns - span.start_ns, span.end_ns - around.end_ns)
    if sum(span.parent < 0 for span in spans) != 1:
        wrong.append("not one beginning")
    if beyond_ns > TOLERANCE_NS:
        wrong.append(f"more than {TOLERANCE_NS / 1e3:.0f} us beyond a parent")
    levels: list[str] = [level for level in LEVELS if any(span.level == level for span in spans)]
    if _used(spans):
        levels.append(HARDWARE)
    wrong += [
        f"no level {level}" + (f" ({absent[level]})" if level in absent else "")
        for level in wanted.levels
        if level not in levels
    ]
    return Finding(what, len(spans), levels, beyond_ns / 1e3, list(dict.fromkeys(wrong)))


def _used(spans: Iterable[Span]) -> bool:
    """Whether each run says what its thread and its process used, and the server what its process did."""
    runs, servers = [], []
    for span in spans:
        if span.level == "framework":
            runs.append(span)
        elif span.name == "server":
            servers.append(span)
    return bool(runs and servers) and all(
        f"{prefix}{figure}" in span.attributes
        for told, prefixes in ((runs, ("", "process_")), (servers, ("process_",)))
        for span in told
        for prefix in prefixes
        for figure in FIGURES
    )


def traced(runtime: str, model: str, requests: int, data_dir: Path) -> Finding:
    """A submission of its own. Raises NoResults, InferBenchError."""
    backend = RUNTIMES[runtime]
    format_ = served_format(backend)
    told = BACKENDS.load(backend).levels_of(format_)
    submission: dict[str, Any] = {
        "name": f"one-request-{backend}",
        "model": {"kind": "zoo", "name": model, "framework": "torch"},
        "requests": {"kind": "random", "samples": max(8, requests)},
        "convert": {"format": format_},
        "serve": {"backend": backend, "threads": 1},
        "trace": {"requests": requests, "rounds": 1, "deepest": told[-1]},
    }
    (ran,) = submitted(submission, data_dir)
    try:
        with PerfDB.connect(embedded.ensure(data_dir), data_dir) as db:
            spans = list(spans_of(stored_table(db, spans_file(db.get_result(ran["run_id"])))))
    finally:
        embedded.stop(data_dir)
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    asking = {span.span_id for span in spans if span.level == "application" and "span_id" in span.attributes}
    if len(asking) != len(traces):
        raise NoResults(f"{runtime}: requests share the span of their traceparent")
    absent = {
        source.level: str(source.as_row()["why_not"])
        for source in ABSENT
        if source.of == backend and source.level not in told
    }
    wanted = WANTED.get(runtime, WHOLE)
    return judged(f"{runtime}, {model}", max(traces.values(), key=len), absent, wanted)


def main() -> int:
    """Ask, judge, print; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="mobilenet_v2")
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path("build/one-request"))
    options = parser.parse_args()
    data_dir: Path = options.data.resolve()
    findings: list[Finding] = []
    unasked: list[str] = []
    for runtime, backend in RUNTIMES.items():
        if why := BACKENDS.load(backend).unavailable("process"):
            unasked.append(f"{runtime}: {why}")
            continue
        try:
            findings.append(traced(runtime, options.model, options.requests, data_dir))
        except (NoResults, InferBenchError, json.JSONDecodeError) as error:
            unasked.append(f"{runtime}: {error}")
    for finding in findings:
        print(finding.words())
    for words in unasked:
        print(f"{words}: not judged")
    return 1 if any(finding.wrong for finding in findings) else 2 if unasked else 0


if __name__ == "__main__":
    raise SystemExit(main())
