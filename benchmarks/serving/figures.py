"""Two figures of the InferBench paper in this machine's measure.

    python benchmarks/serving/figures.py batching     throughput over concurrency, dynamic batching on and off
    python benchmarks/serving/figures.py cold-starts  five models on three servers, start to first answer

``batching`` is Figure 12 for our server and Triton on one ONNX model; ``cold-starts`` is Figure 14(c), with the
models made, converted, served and checked by the pipeline's own stages. The table is printed as Markdown, with
medians over the rounds; what is compared is measured in turns. ``--picture FILE.html`` also draws it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench_servers import request, served, small_cnn
from closed_loop import drive

from inferbench_tasks import settings
from inferbench_tasks.running.child import keeping
from inferbench_tasks.running.perform import perform
from inferbench_tasks.stages import convert, generate, release, serve
from inferbench_tasks.stages.base import Context

CONCURRENCY = (1, 4, 16, 64)
BATCHING = {"max_batch_size": 16, "max_delay_ms": 0.5}
SERVERS = (("onnxruntime", "onnx"), ("triton", "onnx"), ("torchscript", "torchscript"))
MODELS: tuple[dict[str, Any], ...] = (
    *(
        {"kind": "canonical", "family": family, "framework": "torch"}
        for family in ("mlp", "cnn", "rnn", "transformer")
    ),
    {"kind": "zoo", "name": "mobilenet_v2", "framework": "torch"},
)
PARTS = ("process_ms", "model_load_ms", "first_answer_ms", "total_ms")

Rows = list[list[Any]]


def batching(seconds: float, rounds: int) -> tuple[list[str], Rows]:
    """Requests per second and p99 in ms, closed loop: a row per server and setting."""
    body, head = request()
    rates: dict[tuple[str, bool, int], list[float]] = {}
    tails: dict[tuple[str, bool, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = small_cnn(folder / "small_cnn.onnx")
        path = f"/v2/models/{model.name}/infer"
        for _ in range(rounds):
            for kind in ("onnxruntime", "triton"):
                for on in (False, True):
                    spec: dict[str, Any] = {"batching": BATCHING} if on else {}
                    with served(kind, model, folder, **spec) as started:
                        for connections in CONCURRENCY:
                            drive(started.endpoint.port, path, body, head, connections, 0.5)
                            taken = drive(started.endpoint.port, path, body, head, connections, seconds)
                            key = (kind, on, connections)
                            rates.setdefault(key, []).append(len(taken) / seconds)
                            tails.setdefault(key, []).append(statistics.quantiles(taken, n=100)[98])
    head_row = ["server", "dynamic batching"]
    head_row += [f"{c} users, requests/s (p99 ms)" for c in CONCURRENCY]
    rows = [
        [
            kind,
            "on" if on else "off",
            *(
                (statistics.median(rates[kind, on, c]), statistics.median(tails[kind, on, c]))
                for c in CONCURRENCY
            ),
        ]
        for kind in ("onnxruntime", "triton")
        for on in (False, True)
    ]
    return head_row, rows


def cold_starts(rounds: int) -> tuple[list[str], Rows]:
    """Milliseconds of each part of a start: a row per model and server."""
    context = Context(data_dir=settings.writable(settings.data_dir()))
    found: dict[tuple[str, str], list[Any]] = {}
    with keeping():
        for turn in range(rounds + 1):
            for model in MODELS:
                for kind, format_ in SERVERS:
                    cold = cold_start(context, model, kind, format_)
                    if turn:  # the first makes what is cached, and brings the files into memory
                        name = str(model.get("name") or model["family"])
                        found.setdefault((name, kind), []).append(cold)
    rows: Rows = [
        [*key, *(statistics.median(getattr(cold, part) for cold in colds) for part in PARTS)]
        for key, colds in found.items()
    ]
    return ["model", "server", "process, ms", "model load, ms", "first answer, ms", "total, ms"], rows


def cold_start(context: Context, model: dict[str, Any], kind: str, format_: str) -> Any:
    """Serve once and release."""
    job = {
        "name": "cold-start",
        "model": model,
        "convert": {"format": format_},
        "serve": {"backend": kind},
        "load": {"arrivals": {"kind": "constant", "rate_rps": 1.0}},
    }
    base: dict[str, Any] = {"run_id": "bench-cold-start", "job_id": "bench", "job": job}
    made = perform(generate, generate.Input.model_validate(base), context)
    converted = perform(convert, convert.Input.model_validate({**base, "generate": made}), context)
    given = serve.Input.model_validate({**base, "generate": made, "convert": converted})
    try:
        return serve.run(given, context).cold_start
    finally:
        release.run(release.Input.model_validate(base), context)


def markdown(head: list[str], rows: Rows) -> str:
    """The table."""

    def cell(value: Any) -> str:
        if isinstance(value, tuple):
            return f"{value[0]:.0f} ({value[1]:.1f})"
        return value if isinstance(value, str) else f"{value:.0f}"

    lines = [head, ["---"] * len(head), *([cell(value) for value in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def picture(figure: str, head: list[str], rows: Rows, path: Path) -> None:
    """Lines over the concurrency, or stacked bars of the starts' parts."""
    import plotly.graph_objects as go

    drawn = go.Figure()
    if figure == "batching":
        for kind, on, *cells in rows:
            name = f"{kind}, batching {on}"
            drawn.add_scatter(x=list(CONCURRENCY), y=[cell[0] for cell in cells], name=name)
        drawn.update_xaxes(title="concurrent users", type="log", tickvals=list(CONCURRENCY))
        drawn.update_yaxes(title="requests/s", rangemode="tozero")
    else:
        names = [f"{row[0]}, {row[1]}" for row in rows]
        for column in (2, 3, 4):
            drawn.add_bar(x=names, y=[row[column] for row in rows], name=head[column])
        drawn.update_layout(barmode="stack", yaxis_title="ms")
    drawn.write_html(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figure", choices=("batching", "cold-starts"))
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    head, rows = (
        batching(args.seconds, args.rounds) if args.figure == "batching" else cold_starts(args.rounds)
    )
    print(markdown(head, rows))
    if args.picture:
        picture(args.figure, head, rows, args.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
