"""Every gate of what MLModelScope and XSP have here: what it proves, roughly how long it takes, and its command."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Verdict = Literal["passed", "FAILED", "not judged", "stated"]
_HERE = "benchmarks.mlmodelscope."
_PERFDB = "benchmarks.perfdb."
#: Runs a module as ``python -m`` does, but for the exit code of one that raised: Python's own is that of a failure.
_PROGRAM = """
import runpy, sys, traceback
try:
    runpy.run_module(sys.argv.pop(), run_name="__main__", alter_sys=True)
except Exception:
    traceback.print_exc()
    sys.exit(70)
"""


@dataclass(frozen=True)
class Gate:
    """Either a ``module`` with its exit code 0, 1 (failed) or 2 (not judged), or ``tests`` of the suite, of which none
    may be skipped. ``minutes``: of two cores, where nothing was made before. ``states``: it prints, and judges nothing.
    """

    proves: str
    minutes: int
    module: str = ""
    tests: tuple[str, ...] = ()
    states: bool = False

    @property
    def command(self) -> str:
        """As it is typed."""
        return " ".join(("python", "-m", *([self.module] if self.module else ("pytest", *self.tests))))

    def started(self, report: Path) -> list[str]:
        """As it is run here; ``report``: where tests say which were skipped."""
        if self.module:
            return [sys.executable, "-c", _PROGRAM, self.module]
        return [sys.executable, "-m", "pytest", *self.tests, f"--junitxml={report}"]


def _tests(file: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{file}::{name}" for name in names) or (file,)


GATES = {
    "scenarios": Gate(
        "Fashion-MNIST's 10,000 images in four scenarios on four runtimes: at most 3 answers differ; three faulty "
        "servers are found with their samples", 90, _HERE + "scenarios",
    ),
    "accuracies": Gate("20 entries of model x framework and more have a measured accuracy", 90, _HERE + "accuracies"),
    "in_parts": Gate("two workers take at most 0.6 of one's time for the 10,000 images", 10, _HERE + "in_parts"),
    "one_request": Gate(
        "one request with 60 spans and more on all six levels, each within its parent; Triton's down to its compute",
        10, _HERE + "one_request",
    ),
    "otlp": Gate(
        "100,000 spans over OTLP, by HTTP and by gRPC, to a collector of OpenTelemetry's own definitions: none lost, "
        "none twice", 2, tests=_tests("tests/integration/test_otlp_push.py", "test_100_000_spans_arrive_once"),
    ),
    "perfetto": Gate(
        "Perfetto's own engine, in a browser without internet, counts the spans that are stored", 2,
        tests=_tests(
            "tests/e2e/test_trace_pages.py", "test_perfetto_counts_the_spans_that_are_stored",
            "test_perfetto_without_the_system_counts_the_spans_too",
        ),
    ),
    "one_in": Gate(
        "tracing that is there but off costs at most 1%, one of 20 requests traced at most 2%", 17, _HERE + "one_in"
    ),
    "traced_cost": Gate(
        "what one traced request costs server and sender beside one that is not traced, request by request", 1,
        _HERE + "traced_cost", states=True,
    ),
    "layers": Gate(
        "the layer level costs at most 10% in the median of the 37 models; for 34 the layers add up to 95 to 105% of "
        "the run, and the traced session's latency is within 3%", 600, _HERE + "layers",
    ),
    "library_overhead": Gate(
        "what the library level costs two models on two runtimes", 30, _HERE + "library_overhead", states=True
    ),
    "fifteen": Gate(
        "all of XSP's fifteen analyses from one submission, each with table, figure and sentence", 5,
        _HERE + "fifteen",
    ),
    "difference": Gate(
        "a layer that became slow and a fusion that was lost are named first in what makes the difference", 3,
        tests=("tests/integration/test_what_makes_the_difference.py",),
    ),
    "span_bytes": Gate("a stored span takes at most 20 bytes in PerfDB", 10, _HERE + "span_bytes"),
    "opened": Gate("the server gives all of a trace of 100,000 spans within 2 s", 3, _PERFDB + "opened"),
    "opened_page": Gate("a browser has opened that trace within 2 s", 3, _PERFDB + "opened_page"),
    "list": Gate(
        "a list of 1,000 traces, half of them among 100,000 results, within 500 ms", 10, _PERFDB + "traces"
    ),
    "killed": Gate(
        "a server, PerfDB or worker killed during a load, an evaluation, a trace or as results are written, a "
        "collector that is away, an import that was interrupted: one result, no half evaluation or trace, nothing "
        "left running",
        28,
        tests=(
            *_tests(
                "tests/e2e/test_faults.py", "test_a_killed_run_is_settled_by_its_parent",
                "test_mongod_killed_during_a_stage",
            ),
            *_tests("tests/e2e/test_killed_stages.py"),
            *_tests("tests/integration/test_clean.py", "test_files_that_no_result_names_go"),
            *_tests(
                "tests/integration/test_scheduled_jobs.py", "test_a_killed_load_is_run_again_on_the_other_device",
                "test_everything_dies_and_comes_back",
            ),
            *_tests("tests/integration/test_otlp_push.py", "test_a_collector_that_is_away_leaves_runs_alone"),
            *_tests(
                "tests/integration/test_traces_imported.py", "test_what_was_interrupted_leaves_nothing_whole_looking"
            ),
            *_tests(
                "tests/integration/test_evaluated_answers.py",
                "test_what_a_killed_life_of_the_run_left_is_in_nobody_s_way",
            ),
            *_tests("tests/integration/test_traced_requests.py", "test_a_trace_that_fails_leaves_the_run_alone"),
        ),
    ),
    "objectives": Gate(
        "MLModelScope's ten objectives, each by the command that its page has for it", 25,
        tests=_tests("tests/integration/test_scheduled_jobs.py", "test_an_objective_of_mlmodelscope_is_shown"),
    ),
}  # fmt: skip


def verdict_of(gate: Gate, code: int, report: Path) -> Verdict:
    """What an exit code and, of tests, their report say. Who was ended, crashed or could not begin has not judged; nor
    has a test that something ended before or behind it (``<error>``).
    """
    if code == 1 and (gate.module or _failed(report)):
        return "FAILED"
    if code or (gate.tests and _skipped(report)):
        return "not judged"
    return "stated" if gate.states else "passed"


def ran(gate: Gate) -> Verdict:
    """Run it to its end; what it says goes where ours does."""
    with tempfile.TemporaryDirectory(prefix="inferbench-gate-") as folder:
        report = Path(folder, "tests.xml")
        return verdict_of(gate, subprocess.run(gate.started(report), check=False).returncode, report)


def summed_up(verdicts: Sequence[Verdict]) -> int:
    """The exit code of several: 1 if one failed, else 2 if one was not judged."""
    return 1 if "FAILED" in verdicts else 2 if "not judged" in verdicts else 0


def _failed(report: Path) -> bool:
    """Whether a test was held against what it has to prove."""
    return report.exists() and ET.parse(report).getroot().find(".//failure") is not None


def _skipped(report: Path) -> bool:
    """Whether any test was, or none ran."""
    root = ET.parse(report).getroot()
    return root.find(".//testcase") is None or root.find(".//skipped") is not None
