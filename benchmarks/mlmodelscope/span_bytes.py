"""How many bytes a stored span takes in PerfDB: of small and large models, several runtimes, a share of a load.

    python -m benchmarks.mlmodelscope.span_bytes [CASE...] [--data FOLDER] [--show]

Each case is a submission with a `trace` block as a user writes it, by `inferbench run --inline`; then the file of its
spans is read from PerfDB as it lies there, with what monitors saw meanwhile, which is in it, too. Bytes of a span are
those of the whole file by its spans; `--show` says what they are for. A model of few layers has many bytes for each
span, for most of a trace's numbers are those of its requests.

Passed where a span takes at most 20 bytes in each case, FAILED where one takes more; not judged where a case has no
trace, with the reason. Exit code 0, 1, 2. Takes some eight minutes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.submitted import NoResults, served_format, submitted
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import Attachment
from inferbench_tasks.tracing.counters import KEY
from inferbench_tasks.tracing.queries import spans_file

MOST_BYTES = 20.0
#: Columns by what they tell.
_PARTS = {
    "which request": ("trace_id",),
    "what and within what": ("number", "parent", "level", "name", "type"),
    "when": ("start_ns", "duration_ns"),
    "attributes": ("attributes",),
}


@dataclass(frozen=True)
class Case:
    """``trace``: the block as it is written. ``rate_rps``: of a load besides, for ten seconds."""

    model: dict[str, Any]
    backend: str
    trace: dict[str, Any] = field(default_factory=dict)
    rate_rps: float | None = None

    def submission(self, name: str) -> dict[str, Any]:
        """One job."""
        load = {"arrivals": {"kind": "poisson", "rate_rps": self.rate_rps}, "duration_s": 10}
        return {
            "name": f"span-bytes-{name}",
            "model": self.model,
            "convert": {"format": served_format(self.backend)},
            "serve": {"backend": self.backend, "threads": 1},
            **({} if self.rate_rps is None else {"load": load}),
            "trace": self.trace,
        }


_DIGITS = {"kind": "zoo", "name": "digits"}
_SMALL = {"kind": "canonical", "family": "cnn", "framework": "torch", "layers": 6}
_MOBILENET = {"kind": "zoo", "name": "mobilenet_v2"}
CASES = {
    "digits": Case(_DIGITS, "onnxruntime"),
    "digits-one-in-20": Case(_DIGITS, "onnxruntime", {"one_in": 20}, 500),
    "small-torchscript": Case(_SMALL, "torchscript"),
    "mobilenet": Case(_MOBILENET, "onnxruntime"),
    "mobilenet-openvino": Case(_MOBILENET, "openvino"),
    "mobilenet-torchscript": Case(_MOBILENET, "torchscript"),
    "mobilenet-kernels": Case(_MOBILENET, "torchscript", {"deepest": "library"}),
    "resnet": Case({"kind": "zoo", "name": "resnet50"}, "onnxruntime"),
}


@dataclass(frozen=True)
class Stored:
    """The file of a case's spans. ``parts``: what its bytes are for; the rest is the file's own."""

    name: str
    spans: int
    size_bytes: int
    parts: dict[str, int]

    @property
    def of_span(self) -> float:
        """Bytes of a span."""
        return self.size_bytes / self.spans

    def words(self) -> str:
        """A line."""
        verdict = "passed" if self.of_span <= MOST_BYTES else "FAILED"
        sizes = f"{self.spans:>7,} spans {self.size_bytes:>9,} bytes {self.of_span:>6.1f} a span"
        return f"{self.name:22} {sizes}: {verdict}"

    def shown(self) -> str:
        """What the bytes of a span are for."""
        each = [f"{name} {size / self.spans:.1f}" for name, size in self.parts.items()]
        return f"{'':22} {', '.join(each)}"


def stored(name: str, content: bytes) -> Stored:
    """A file of spans as it lies in PerfDB."""
    with pq.ParquetFile(pa.BufferReader(content)) as file:
        told = file.metadata
    groups = [told.row_group(at) for at in range(told.num_row_groups)]
    columns = [group.column(at) for group in groups for at in range(told.num_columns)]
    parts = {
        part: sum(column.total_compressed_size for column in columns if column.path_in_schema in names)
        for part, names in _PARTS.items()
    }
    parts["what monitors saw"] = len((told.metadata or {}).get(KEY, b""))
    parts["the file's own"] = len(content) - sum(parts.values())
    return Stored(name, told.num_rows, len(content), parts)


def judged(found: Sequence[Stored], missing: Sequence[str]) -> tuple[int, str]:
    """The exit code and the words; ``missing``: why a case has no trace."""
    over = [each for each in found if each.of_span > MOST_BYTES]
    code = 1 if over else 2 if missing or not found else 0
    most = max((each.of_span for each in found), default=0.0)
    verdict = ("passed", "FAILED", "not judged")[code]
    return code, f"{len(found)} cases, at most {most:.1f} bytes a span (limit {MOST_BYTES:.0f}): {verdict}"


def asked(name: str, data_dir: Path) -> Stored:
    """Run a case, and read what is stored of it. Raises NoResults, InferBenchError."""
    case = CASES[name]
    if why := BACKENDS.load(case.backend).unavailable("process"):
        raise NoResults(why)
    (ran,) = submitted(case.submission(name), data_dir)
    try:
        with PerfDB.connect(embedded.ensure(data_dir), data_dir) as db:
            file = spans_file(db.get_result(ran["run_id"]))
            return stored(name, db.files.get(Attachment.model_validate(file)))
    finally:
        embedded.stop(data_dir)


def main() -> int:
    """Ask, judge, print; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of: {', '.join(CASES)}")
    parser.add_argument("--data", type=Path, default=Path("build/span-bytes"))
    parser.add_argument("--show", action="store_true", help="What the bytes of a span are for, too.")
    options = parser.parse_args()
    if unknown := set(options.cases) - set(CASES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    found: list[Stored] = []
    missing: list[str] = []
    for name in options.cases or CASES:
        try:
            found.append(asked(name, options.data.resolve()))
        except (NoResults, InferBenchError, json.JSONDecodeError) as error:
            missing.append(f"{name}: not judged: {error}")
            print(missing[-1], flush=True)
            continue
        print(found[-1].words(), flush=True)
        if options.show:
            print(found[-1].shown(), flush=True)
    code, words = judged(found, missing)
    print(words)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
