"""How long the server takes to open a trace of 100,000 spans among as many results as wanted.

    python -m benchmarks.perfdb.opened [--results 20000] [--uri mongodb://...]

Asks what the trace's page asks for, each ten times through the real web application (only the login is taken for
granted; compressed as Airflow's server does), then all of it, and the file for Perfetto; prints bytes, first, median
and maximum in ms and CPU ms against the limit. Exit code 1 if one is over it, the first time included, which has to
unpack the spans, or is no answer. What the browser draws comes on top, see docs/explanation/traces.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.perfdb.answered import require_answered
from benchmarks.perfdb.filled import filled, measure
from benchmarks.perfdb.pages import application, weight
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.tracing.request_parts import FIRST_BYTE, LAST_BYTE, WAIT
from inferbench_tasks.tracing.spans import Span, write

#: "100,000 spans open within 2 s".
LIMIT_MS = 2000.0
REQUESTS, LAYERS = 100, 993
SPANS = REQUESTS * (LAYERS + 7)
#: The first result of the database is the one that was traced.
RUN = "run-0000000"
_START_NS = 1_790_000_000_000_000_000


def spans() -> Iterator[Span]:
    """Requests of a model of 993 layers, one behind the other: the client's parts, and in the second of them server,
    inference, run of the runtime, layers."""
    for at in range(REQUESTS):
        trace, start_ns = f"{at + 1:032x}", _START_NS + at * 40_000_000
        took = [30_000 + (at * 7 + place * 13) % 9_000 for place in range(LAYERS)]
        run_ns = sum(took) + 100_000
        about = {"sample": at, "round": at % 3}
        asking = {"span_id": f"{at + 1:016x}"}
        yield Span(trace, 0, -1, "application", "request", start_ns, run_ns + 900_000, "", about)
        yield Span(trace, 1, 0, "application", WAIT, start_ns, 150_000)
        yield Span(trace, 2, 0, "application", FIRST_BYTE, start_ns + 150_000, run_ns + 650_000, "", asking)
        yield Span(trace, 3, 0, "application", LAST_BYTE, start_ns + run_ns + 800_000, 100_000)
        yield Span(trace, 4, 2, "model", "server", start_ns + 200_000, run_ns + 500_000, "", {"rows": 1})
        yield Span(trace, 5, 4, "model", "inference", start_ns + 400_000, run_ns + 100_000)
        yield Span(
            trace, 6, 5, "framework", "session.run", start_ns + 450_000, run_ns, "", {"cpu_ns": run_ns}
        )
        begin_ns = start_ns + 500_000
        for place, ns in enumerate(took):
            kind = ("Conv", "Relu", "Add", "MatMul", "Softmax", "Reshape")[place % 6]
            shape = {"output_shapes": [[1, 64, 56, 1 + place % 56]], "output_bytes": 4 * 64 * 56}
            yield Span(
                trace, 7 + place, 6, "layer", f"/block{place // 8}/{kind}_{place}", begin_ns, ns, kind, shape
            )
            begin_ns += ns


def add_trace(db: PerfDB, folder: Path) -> None:
    """To the oldest run."""
    path = folder / "spans.parquet"
    write(spans(), path)
    file = db.files.put(path, "spans.parquet", run_id=RUN)
    trace = {
        "levels": ["application", "model", "framework", "layer"], "requests": REQUESTS, "defects": 0,
        "spans": SPANS, "layers": {"framework_ms": 35.0, "explained_ratio": 0.99},
        "file": file.model_dump(),
    }  # fmt: skip
    db.collection("results").update_one({"run_id": RUN}, {"$set": {"extensions.trace": trace}})


def questions(db: PerfDB, folder: Path) -> dict[str, Callable[[], int]]:
    """What the page asks for; returns bytes."""
    client = application(db, folder)

    def get(path: str) -> int:
        answer = client.get(f"/inferbench{path}")
        require_answered(path, answer)
        return weight(answer)

    api = f"/api/traces/{RUN}"
    of_page = {
        "its page": partial(get, f"/trace/{RUN}"),
        "its timeline": partial(get, f"{api}/timeline"),
        "its flame graph": partial(get, f"{api}/flamegraph"),
        "its spans by name": partial(get, f"{api}/spans?name=Conv&limit=50"),
    }
    whole = {"all of it": lambda: sum(each() for each in of_page.values())}
    return of_page | whole | {"its file for Perfetto": partial(get, f"{api}?format=perfetto")}


if __name__ == "__main__":
    with filled(__doc__, results=20_000) as (db, folder):
        add_trace(db, folder)
        measure(questions(db, folder), LIMIT_MS, folder, "bytes", first_counts=True)
