"""Made-up traces of known spans in a PerfDB: two of runs on different runtimes, one of another tool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.tracing.counters import Track, packed
from inferbench_tasks.tracing.foreign.file import load, read
from inferbench_tasks.tracing.foreign.keep import keep
from inferbench_tasks.tracing.spans import Span, write
from tests.unit.perfdb.builders import result
from tests.unit.tracing.foreign.files import otlp, otlp_span

#: Of each traced run: so many requests with so many layers, and four spans around these.
REQUESTS, LAYERS, AROUND = 12, 40, 4
SPANS = REQUESTS * (LAYERS + AROUND)
TYPES = ("Conv", "Relu", "Add", "MaxPool", "MatMul", "Softmax", "Reshape", "Concat")
#: A name that a page must show as text.
NASTY = "<img src=x onerror=alert(1)>/attention"
_START_NS = 1_790_000_000_000_000_000
#: What monitors saw of each traced run: all samples at moments of their own, each 0.1 s.
TRACKS = tuple(
    Track(name, unit, [_START_NS + at * 100_000_000 for at in range(len(values))], values)
    for name, unit, values in (
        ("server's CPU", "cores", [0.25, 1.5, 2.0, 1.5, 0.75]),
        ("server's memory", "bytes", [3e8, 4e8, 4e8]),
        ("server's threads", "", [7.0]),
    )
)


def steps() -> Iterator[Span]:
    """Two steps of a warm-up of 5 ms, three measured ones of 2 ms, a last one of 1 ms; in each a phase of 0 ns."""
    for at, (part, ns) in enumerate(
        [("warmup", 5_000_000)] * 2 + [("measured", 2_000_000)] * 3 + [("last", 1_000_000)]
    ):
        trace, start_ns = f"{at + 1:032x}", _START_NS + at * 10_000_000
        yield Span(trace, 0, -1, "application", f"step {at}", start_ns, ns, attributes={"part": part})
        yield Span(trace, 1, 0, "model", "rank 0", start_ns, ns)
        yield Span(trace, 2, 1, "framework", "nothing", start_ns, 0)


def instrumented() -> Iterator[Span]:
    """A request of 1 ms without the instruments of the library level, and of 3 ms with them."""
    for at, (level, ns) in enumerate((("layer", 1_000_000), ("library", 3_000_000))):
        trace, start_ns = f"{at + 1:032x}", _START_NS + at * 10_000_000
        yield Span(trace, 0, -1, "application", "request", start_ns, ns, attributes={"instrumented": level})
        yield Span(trace, 1, 0, "layer", "conv", start_ns, ns // 2, "Conv")
        if level == "library":
            yield Span(trace, 2, 1, "library", "jit", start_ns, ns // 4, "convolution")


def requests(count: int, layers: int, slower: float = 1.0) -> Iterator[Span]:
    """Requests one behind the other, each with a server, an inference, a run of the runtime and its layers."""
    for at in range(count):
        trace, start_ns, places = f"{at + 1:032x}", _START_NS + at * 40_000_000, range(layers)
        took = [
            round((150_000 if place % 3 == 0 else 60_000) * (slower if place == 3 else 1)) for place in places
        ]
        run_ns = sum(took) + 100_000
        attributes = {"sample": at, "round": at % 3}
        yield Span(trace, 0, -1, "application", "request", start_ns, run_ns + 900_000, attributes=attributes)
        yield Span(
            trace, 1, 0, "model", "server", start_ns + 200_000, run_ns + 500_000, attributes={"rows": 1}
        )
        yield Span(trace, 2, 1, "model", "inference", start_ns + 400_000, run_ns + 100_000)
        yield Span(
            trace, 3, 2, "framework", "session.run", start_ns + 450_000, run_ns,
            attributes={"cpu_ns": run_ns - 5_000, "switches_involuntary": at},
        )  # fmt: skip
        begin_ns = start_ns + 500_000
        for place, ns in zip(places, took, strict=True):
            kind = TYPES[place % len(TYPES)]
            name = NASTY if place == 4 else f"/block{place // 8}/{kind.lower()}_{place}"
            shape = {"output_shapes": [[1, 64, 56, 56 - place % 40]], "output_bytes": 4 * 64 * 56}
            yield Span(trace, AROUND + place, 3, "layer", name, begin_ns, ns, kind, shape)
            begin_ns += ns


def seed(db: PerfDB, folder: Path) -> str:
    """Runs ``traced-quick`` and ``traced-slow``, ``traced-failed`` without spans; the id of an imported trace."""
    for name, slower, backend in (("quick", 1.0, "onnxruntime"), ("slow", 9.0, "openvino")):
        store(db, folder, f"traced-{name}", requests(REQUESTS, LAYERS, slower), SPANS, backend)
    db.save_result(result("traced-failed", extensions={"trace": {"problem": "the server left no trace"}}))
    path = folder / "shop.json"
    path.write_bytes(
        otlp(*(otlp_span(at, at // 2 or None, 1_000 * at, 90_000 - 500 * at) for at in range(1, 40)))
    )
    file = load(path)
    return str(keep(db, file, read(file))[0]["_id"])


def store(
    db: PerfDB, folder: Path, run_id: str, spans: Iterator[Span], count: int, backend: str = "onnxruntime"
) -> None:
    """A traced run with these spans."""
    path = folder / f"{run_id}.parquet"
    write(spans, path, packed(TRACKS))
    stored = db.files.put(path, "spans.parquet", run_id=run_id)
    overheads = [
        {"level": level, "latency_ms": 5.0, "ratio": 1 + 0.01 * at, "ci95": [1.0, 1.1 + at / 100]}
        for at, level in enumerate(("application", "model", "framework", "layer"))
    ]
    trace = {
        "levels": ["application", "model", "framework", "layer"], "spans": count, "requests": REQUESTS, "defects": 0,
        "layers": {"framework_ms": 3.9, "explained_ratio": 0.974}, "overheads": overheads,
        "file": stored.model_dump(),
    }  # fmt: skip
    about = {"kind": backend, "version": "1", "launcher": "process", "settings": {"threads": 2}}
    db.save_result(result(run_id, backend=about, extensions={"trace": trace}))
