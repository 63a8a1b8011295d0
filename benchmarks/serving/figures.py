"""Two figures of the InferBench paper in this machine's measure.

    python benchmarks/serving/figures.py batching     throughput over concurrency, dynamic batching on and off
    python benchmarks/serving/figures.py cold-starts  five models on three servers, start to first answer

``batching`` is Figure 12 for our server and Triton on one ONNX model; ``cold-starts`` is Figure 14(c), with the
models made, converted, served and checked by the pipeline's own stages.
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
from inferbench_tasks.stages import convert, generate, release, serve
from inferbench_tasks.stages.base import Context

CONCURRENCY = (1, 4, 16, 64)
SERVERS = (("onnxruntime", "onnx"), ("triton", "onnx"), ("torchscript", "torchscript"))
MODELS: tuple[dict[str, Any], ...] = (
    *(
        {"kind": "canonical", "family": family, "framework": "torch"}
        for family in ("mlp", "cnn", "rnn", "transformer")
    ),
    {"kind": "zoo", "name": "mobilenet_v2", "framework": "torch"},
)


def batching(seconds: float) -> None:
    """Requests per second and p99, closed loop."""
    body, head = request()
    print(f"{'server':12} {'batching':8} " + " ".join(f"{f'c={c}':>16}" for c in CONCURRENCY))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = small_cnn(folder / "small_cnn.onnx")
        for kind in ("onnxruntime", "triton"):
            for on in (False, True):
                spec: dict[str, Any] = {"batching": {"max_batch_size": 16, "max_delay_ms": 0.5}} if on else {}
                cells = []
                with served(kind, model, folder, **spec) as started:
                    path = f"/v2/models/{model.name}/infer"
                    for connections in CONCURRENCY:
                        drive(started.endpoint.port, path, body, head, connections, 0.5)
                        taken = drive(started.endpoint.port, path, body, head, connections, seconds)
                        p99 = statistics.quantiles(taken, n=100)[98]
                        cells.append(f"{len(taken) / seconds:7.0f}/s {p99:5.1f}ms")
                print(
                    f"{kind:12} {'on' if on else 'off':8} " + " ".join(f"{cell:>16}" for cell in cells),
                    flush=True,
                )


def cold_starts(rounds: int) -> None:
    """Medians over the rounds, ms."""
    context = Context(data_dir=settings.writable(settings.data_dir()))
    print(f"{'model':12} {'server':12} {'process':>9} {'load':>9} {'answer':>9} {'total':>9}  (ms)")
    for model in MODELS:
        for kind, format_ in SERVERS:
            found = [cold_start(context, model, kind, format_) for _ in range(rounds)]
            medians = [
                statistics.median(getattr(cold, part) for cold in found)
                for part in ("process_ms", "model_load_ms", "first_answer_ms", "total_ms")
            ]
            name = str(model.get("name") or model["family"])
            print(f"{name:12} {kind:12} " + " ".join(f"{value:9.0f}" for value in medians), flush=True)


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
    made = generate.run(generate.Input.model_validate(base), context)
    converted = convert.run(convert.Input.model_validate({**base, "generate": made}), context)
    given = serve.Input.model_validate({**base, "generate": made, "convert": converted})
    try:
        return serve.run(given, context).cold_start
    finally:
        release.run(release.Input.model_validate(base), context)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figure", choices=("batching", "cold-starts"))
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if args.figure == "batching":
        batching(args.seconds)
    else:
        cold_starts(args.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
