"""The real Triton with one small and one image-sized model, for the peers and for us."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from inferbench_tasks.backends import startup
from inferbench_tasks.backends.base import BACKENDS, Deployment
from inferbench_tasks.contracts.handles import Endpoint, ModelArtifact, TensorSpec
from inferbench_tasks.launchers import records
from inferbench_tasks.launchers.base import LAUNCHERS
from inferbench_tasks.submission.schema import ServeSpec
from tests.serving_cases import dense_case

IMAGE = (3, 224, 224)


@dataclass(frozen=True)
class Server:
    """A Triton over gRPC: the leader of its session, and the key of the region that it reads inputs from, if any."""

    where: Endpoint
    leader: int
    region: str | None


def triton(
    stack: ExitStack,
    folder: Path,
    model: ModelArtifact,
    serve: dict[str, Any],
    *,
    shared_memory: bool = False,
) -> Server:
    """A Triton of its own for a model."""
    server = folder / f"server-{model.name}"
    server.mkdir()
    environments = Path(sys.prefix) / "inferbench-test-envs"
    environments.mkdir(exist_ok=True)
    spec = ServeSpec.model_validate({"backend": "triton", **serve})
    run_id = f"compare-{model.name}"
    deployment = Deployment(
        run_id, model, spec, server, environments, protocol="grpc", shared_memory=shared_memory
    )
    stack.callback(records.end_run, folder / "servers", run_id)
    started = startup.start(
        BACKENDS.load("triton")(), deployment, LAUNCHERS.load("process")(), folder / "servers"
    )
    return Server(started.endpoint, started.server.pid, started.prepared.shared_memory)


def small(stack: ExitStack, folder: Path) -> tuple[Server, dict[str, Any]]:
    """A dense layer of 6 x 4, up to 8 requests in a batch: 24 bytes in, 16 out."""
    case = dense_case(folder)
    return triton(stack, folder, case.model, {"batching": {"max_batch_size": 8}}), case.samples


def image(stack: ExitStack, folder: Path) -> tuple[Server, dict[str, Any]]:
    """The mean of each colour of a 224 x 224 image: 602,112 bytes in, 12 out, each request by itself.

    It takes inputs from shared memory too, which changes nothing for those that come over the network.
    """
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["image"], ["pooled"]),
            helper.make_node("Flatten", ["pooled"], ["colours"]),
        ],
        "colours",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", *IMAGE])],
        [helper.make_tensor_value_info("colours", TensorProto.FLOAT, ["batch", IMAGE[0]])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = folder / "colours.onnx"
    onnx.save(model, path)
    artifact = ModelArtifact(
        name="colours",
        framework="onnx",
        format="onnx",
        path=str(path),
        digest="0" * 64,
        inputs=(TensorSpec(name="image", dtype="float32", shape=IMAGE),),
        outputs=(TensorSpec(name="colours", dtype="float32", shape=(IMAGE[0],)),),
    )
    images = np.random.default_rng(3).random((4, *IMAGE), np.float32)
    return triton(stack, folder, artifact, {}, shared_memory=True), {"image": images}
