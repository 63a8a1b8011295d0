"""``tensorflow_serving``: the real TensorFlow Serving; its image in a container, or its binary if on PATH.

No Python package brings the binary. Where neither can run there is ``tfs_protocol``, which is something else.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from inferbench_tasks.backends.base import Backend, Deployment, Prepared, thread_env
from inferbench_tasks.backends.ports import free_ports
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.launchers.base import Launch
from inferbench_tasks.sandbox import Reach
from inferbench_tasks.submission.schema import ServeSpec

BINARY = "tensorflow_model_server"
TAG = "2.18.0"


class TensorFlowServing(Backend):
    """TensorFlow Serving, asked by ``PredictionService/Predict`` over gRPC."""

    kind = "tensorflow_serving"
    formats = ("savedmodel",)
    protocols = ("grpc",)
    tfs_predict = True
    launchers = ("container", "process")

    @classmethod
    def unavailable(cls, launcher: str, device: str = "cpu") -> str | None:
        """As a process it needs the binary; the image is looked for when it is started."""
        if launcher == "process" and shutil.which(BINARY) is None:
            return f"{BINARY} is not on PATH; use serve.launcher: container, or serve.backend: tfs_protocol"
        return None

    def __init__(self) -> None:
        self._image: str | None = None

    def image(self, spec: ServeSpec) -> str | None:
        """The submission's image, or the official one with a pinned tag."""
        return spec.image or f"tensorflow/serving:{TAG}"

    def version(self) -> str:
        """What the binary says of itself; of a container its image's tag, else ``unknown``: a digest is no
        version."""
        if self._image is not None:
            return tag_of(self._image) or "unknown"
        process = subprocess.run(
            [BINARY, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
        return process.stdout.split("\n")[0].removeprefix("TensorFlow ModelServer: ") or "unknown"

    def label(self) -> str:
        """TensorFlow Serving itself with its version, for people."""
        return f"TensorFlow Serving {self.version()}"

    def prepare(self, deployment: Deployment) -> Prepared:
        """Command-line options, and a file for batching."""
        require("grpc")
        spec, model = deployment.spec, deployment.model
        if spec.instances != 1:
            raise InputError(
                "TensorFlow Serving has one session per model; use batching and threads",
                field="serve.instances",
            )
        container = spec.launcher == "container"
        self._image = self.image(spec) if container else None
        name = deployment.model_name
        base = deployment.folder / "repository" / name
        base.mkdir(parents=True, exist_ok=True)
        version = base / str(model.version)
        if container:
            version.mkdir(exist_ok=True)  # the model is mounted there
        elif not version.is_symlink():
            version.symlink_to(Path(model.path), target_is_directory=True)
        grpc_port, rest_port = free_ports(2)
        grpc_port = deployment.port or grpc_port
        options: dict[str, Any] = {
            "port": grpc_port,
            "rest_api_port": rest_port,
            "model_name": name,
            "model_base_path": base,
            "tensorflow_intra_op_parallelism": spec.threads,
            "tensorflow_inter_op_parallelism": 1,
            "file_system_poll_wait_seconds": 1,
        }
        config_path = deployment.folder / "batching.pbtxt"
        config_path.write_text(batching_parameters(spec))
        if spec.batching:
            options |= {"enable_batching": "true", "batching_parameters_file": config_path}
        argv = tuple(f"--{key}={value}" for key, value in options.items())
        launch = Launch(
            run_id=deployment.run_id,
            folder=deployment.folder,
            config_path=config_path,
            argv=argv if container else (BINARY, *argv),
            env={**thread_env(spec.threads), "TF_CPP_MIN_LOG_LEVEL": "1"},
            port_in_use="ddress already in use",
            reach=Reach(reads=(model.path,), binds=(grpc_port, rest_port)),
            image=self._image,
            mounts={model.path: str(version)} if container else {},
        )
        endpoint = Endpoint(
            protocol="grpc_tfs",
            host=deployment.host,
            port=grpc_port,
            model_name=name,
            model_version=str(model.version),
        )
        settings = {
            "threads": spec.threads,
            "image": self._image,
            "options": {key: str(value) for key, value in options.items()},
            "batching": config_path.read_text() if spec.batching else None,
        }
        return Prepared(launch, lambda: endpoint, settings)


def tag_of(image: str) -> str:
    """``2.18.0`` of ``registry:5000/tensorflow/serving:2.18.0@sha256:...``; "" without a tag."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def batching_parameters(spec: ServeSpec) -> str:
    """The batching parameters file; empty without batching.

    Allowed sizes pad a batch up to the next of them, and must end with the maximum.
    """
    if spec.batching is None:
        return ""
    batching = spec.batching
    lines = [
        f"max_batch_size {{ value: {batching.max_batch_size} }}",
        f"batch_timeout_micros {{ value: {round(batching.max_delay_ms * 1000)} }}",
        f"num_batch_threads {{ value: {spec.threads} }}",
        "max_enqueued_batches { value: 1024 }",
    ]
    preferred = sorted({p for p in batching.preferred_batch_sizes if p < batching.max_batch_size})
    if preferred:
        lines += [f"allowed_batch_sizes: {size}" for size in (*preferred, batching.max_batch_size)]
    return "\n".join(lines) + "\n"
