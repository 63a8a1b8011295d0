"""Our server against the bare runtime, and against Triton: one ONNX model, one machine, in turns.

    python benchmarks/serving/bench_servers.py [--seconds 4] [--rounds 3]

Two figures are gates (exit code 1 if one is missed): the server's overhead over ONNX Runtime by itself at
batch 1 (p50, at most 1 ms), and its throughput with dynamic batching at 16 connections (at least 0.8 of
Triton's). Also the time to ready of a second start (at most 3 s). The servers are measured alternately, and
the medians of the rounds compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from closed_loop import drive
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks import settings
from inferbench_tasks.backends import startup
from inferbench_tasks.backends.base import BACKENDS, Deployment
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.errors import ServerError
from inferbench_tasks.launchers import records
from inferbench_tasks.launchers.process import ProcessLauncher
from inferbench_tasks.submission.schema import ServeSpec

SHAPE = (3, 32, 32)
CONNECTIONS = 16


def small_cnn(path: Path) -> ModelArtifact:
    """Three convolutions and a classifier, as for CIFAR-sized images."""
    rng = np.random.default_rng(0)
    nodes, weights, last, channels = [], [], "image", SHAPE[0]
    for layer, width in enumerate((16, 32, 32)):
        kernel = rng.normal(0, 0.1, (width, channels, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(kernel, f"k{layer}"))
        nodes.append(
            helper.make_node("Conv", [last, f"k{layer}"], [f"c{layer}"], strides=[2, 2], pads=[1, 1, 1, 1])
        )
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"]))
        last, channels = f"r{layer}", width
    weights.append(numpy_helper.from_array(rng.normal(0, 0.1, (channels, 10)).astype(np.float32), "w"))
    nodes += [
        helper.make_node("GlobalAveragePool", [last], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small_cnn",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", *SHAPE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 10])],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return ModelArtifact(
        name="small_cnn",
        framework="onnx",
        format="onnx",
        path=str(path),
        digest="0" * 64,
        inputs=(TensorSpec(name="image", dtype="float32", shape=SHAPE),),
        outputs=(TensorSpec(name="scores", dtype="float32", shape=(10,)),),
    )


@contextmanager
def served(kind: str, model: ModelArtifact, folder: Path, **spec: Any) -> Iterator[startup.Started]:
    """A started backend; ServerError with its state and the end of its log where it stops answering."""
    run_id = f"bench-{kind}"
    (folder / run_id).mkdir(exist_ok=True)
    cache = settings.data_dir() / "cache" / "envs"
    cache.mkdir(parents=True, exist_ok=True)
    deployment = Deployment(
        run_id, model, ServeSpec.model_validate({"backend": kind, **spec}), folder / run_id, cache
    )
    launcher = ProcessLauncher()
    try:
        started = startup.start(BACKENDS.load(kind)(), deployment, launcher, folder / "servers")
        try:
            yield started
        except OSError as error:
            alive = launcher.alive(started.server)
            state = "is still running" if alive else launcher.exit_text(started.server)
            said = launcher.log_end(started.server)
            raise ServerError(
                f"{kind} did not answer ({error}); it {state}; its log ends:\n{said}"
            ) from error
        started.probe.close()
    finally:
        records.end_run(folder / "servers", run_id)


def request() -> tuple[bytes, int]:
    """One image in binary form; body and the length of its JSON part."""
    image = np.random.default_rng(1).normal(size=(1, *SHAPE)).astype(np.float32)
    described = {
        "name": "image",
        "datatype": "FP32",
        "shape": list(image.shape),
        "parameters": {"binary_data_size": image.nbytes},
    }
    head = json.dumps({"inputs": [described], "parameters": {"binary_data_output": True}}).encode()
    return head + image.tobytes(), len(head)


def bare_p50_ms(model: ModelArtifact, seconds: float) -> float:
    """ONNX Runtime by itself in this process, one intra-op thread."""
    import onnxruntime as ort

    options: Any = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.path, options, providers=["CPUExecutionProvider"])
    image = np.random.default_rng(1).normal(size=(1, *SHAPE)).astype(np.float32)
    taken, end = [], time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        session.run(None, {"image": image})
        taken.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(taken)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    body, head = request()
    bare, alone = [], []
    throughput: dict[str, list[float]] = {"onnxruntime": [], "triton": []}
    ready: dict[str, list[float]] = {"onnxruntime": [], "triton": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = small_cnn(folder / "small_cnn.onnx")
        path = f"/v2/models/{model.name}/infer"
        with served("triton", model, folder):
            pass  # the environment is installed and the files are in memory: now starts are second starts
        for _ in range(args.rounds):
            bare.append(bare_p50_ms(model, args.seconds / 4))
            with served("onnxruntime", model, folder) as started:
                alone.append(
                    statistics.median(drive(started.endpoint.port, path, body, head, 1, args.seconds))
                )
            for kind in throughput:
                batching = {"max_batch_size": 8, "max_delay_ms": 1.0}
                with served(kind, model, folder, batching=batching) as started:
                    ready[kind].append(started.process_ms + started.model_load_ms)
                    drive(started.endpoint.port, path, body, head, CONNECTIONS, 1.0)
                    done = drive(started.endpoint.port, path, body, head, CONNECTIONS, args.seconds)
                    throughput[kind].append(len(done) / args.seconds)
    overhead_ms = statistics.median(alone) - statistics.median(bare)
    ours, tritons = (statistics.median(throughput[kind]) for kind in ("onnxruntime", "triton"))
    print(f"bare ONNX Runtime, batch 1, p50          {statistics.median(bare):8.3f} ms")
    print(f"through our server, one connection, p50  {statistics.median(alone):8.3f} ms")
    print(f"overhead (gate: <= 1 ms)                 {overhead_ms:8.3f} ms")
    for kind in throughput:
        rounds = ", ".join(f"{value:.0f}" for value in throughput[kind])
        print(f"{kind}, dynamic batching, {CONNECTIONS} connections: {rounds} requests/s")
    print(f"ours / Triton (gate: >= 0.8)             {ours / tritons:8.2f}")
    for kind, times in ready.items():
        print(f"{kind}: second start to ready (gate: <= 3 s) {statistics.median(times) / 1e3:6.2f} s")
    worst_ready_s = max(statistics.median(times) for times in ready.values()) / 1e3
    return 0 if overhead_ms <= 1 and ours / tritons >= 0.8 and worst_ready_s <= 3 else 1


if __name__ == "__main__":
    sys.exit(main())
