"""TensorFlow Serving's Predict over gRPC."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from inferbench_tasks.backends.probes.base import Arrays, Refused, as_array
from inferbench_tasks.backends.probes.channel import GrpcChannel
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.protocols import tfs_proto


class TfsGrpc:
    """A probe of TensorFlow Serving's protocol over gRPC."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._channel = GrpcChannel(endpoint, timeout_s)

    def live(self) -> bool:
        """Whether it answers ``GetModelStatus``, be it with an error."""
        try:
            self._status()
        except Refused:
            return True
        except OSError:
            return False
        return True

    def ready(self) -> bool:
        """Whether a version of the model is AVAILABLE."""
        try:
            answer = self._status()
        except (Refused, OSError):
            return False
        return any(version.state == tfs_proto.AVAILABLE for version in answer.model_version_status)

    def infer(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Ask the model once: ``Predict`` of the signature ``serving_default``."""
        arrays = {name: as_array(value) for name, value in inputs.items()}
        request = tfs_proto.predict_request(self._endpoint.model_name, "serving_default", arrays)
        response = self._channel.call(tfs_proto.PREDICT, request, tfs_proto.message("PredictResponse"))
        try:
            return {name: tfs_proto.read(tensor) for name, tensor in response.outputs.items()}
        except ValueError as error:
            raise Refused(f"an output can't be read: {error}") from error

    def statistics(self) -> dict[str, Any] | None:
        """None: the protocol has no statistics."""
        return None

    def close(self) -> None:
        """Nothing stays open between two calls."""

    def _status(self) -> Any:
        request = tfs_proto.message("GetModelStatusRequest")()
        request.model_spec.name = self._endpoint.model_name
        return self._channel.call(
            tfs_proto.MODEL_STATUS, request, tfs_proto.message("GetModelStatusResponse")
        )
