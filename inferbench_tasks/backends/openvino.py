"""``openvino``: OpenVINO models by Intel's runtime in our FastAPI server."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.backends.base import Deployment
from inferbench_tasks.backends.own_server import OwnServer


class OpenVino(OwnServer):
    """One stream per instance; the runtime computes in what the job asks for, whatever the file's weights are in."""

    kind = "openvino"
    formats = ("openvino",)
    engine = "openvino"
    package = "openvino"
    extra = "openvino"
    title = "OpenVINO"
    traced_levels = ("model", "framework", "layer", "library")

    def engine_settings(self, deployment: Deployment) -> dict[str, Any]:
        """Left alone, the runtime would compute in bf16 where the CPU can."""
        precision = {"fp16": "f16", "bf16": "bf16"}.get(deployment.precision, "f32")
        return {"inference_precision": precision}
