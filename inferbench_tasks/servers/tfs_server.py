"""TensorFlow Serving's gRPC protocol on our own server: a stand-in, not TensorFlow Serving.

It exists so that the client path of TensorFlow Serving can be run where its binary can't. The messages
are the genuine ones of the package tensorflow-serving-api.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from inferbench_tasks.protocols.datatypes import Array, datatype_of
from inferbench_tasks.protocols.problem import RequestProblem
from inferbench_tasks.servers.grpc_front import Decoded, GrpcFront
from inferbench_tasks.servers.model import ServedModel


class TfsServer(GrpcFront):
    """A server of ``PredictionService/Predict``, ``GetModelMetadata`` and ``ModelService/GetModelStatus``."""

    def __init__(self, model: ServedModel, version: str, secret: str = "") -> None:
        super().__init__(model, version, secret)
        import grpc
        import tensorflow as tf
        from tensorflow_serving.apis import (
            get_model_metadata_pb2,
            get_model_status_pb2,
            model_service_pb2_grpc,
            predict_pb2,
            prediction_service_pb2_grpc,
        )

        self._tf = tf
        self._predict_pb2: Any = predict_pb2
        self._status_pb2: Any = get_model_status_pb2
        self._metadata_pb2: Any = get_model_metadata_pb2
        front = self

        class Prediction(prediction_service_pb2_grpc.PredictionServiceServicer):  # type: ignore[misc]
            async def Predict(self, request: Any, context: Any) -> Any:
                return await front.predict(request, context)

            async def GetModelMetadata(self, request: Any, context: Any) -> Any:
                return await front.metadata(request, context)

        class Status(model_service_pb2_grpc.ModelServiceServicer):  # type: ignore[misc]
            async def GetModelStatus(self, request: Any, context: Any) -> Any:
                return await front.status(request, context)

            async def HandleReloadConfigRequest(self, request: Any, context: Any) -> Any:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "the model is the run's own")

        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Prediction(), self.server)
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(Status(), self.server)

    async def predict(self, request: Any, context: Any) -> Any:
        """Run the model once."""

        def decoded() -> Decoded[list[str]]:
            self._check(request.model_spec)
            arrays, names = self._decode(request)
            return Decoded(arrays, self.model.signature.batch_size(arrays), names)

        return await self.infer(context, decoded, self._encode)

    def _encode(self, decoded: Decoded[list[str]], outputs: dict[str, Array]) -> Any:
        response = self._predict_pb2.PredictResponse()
        response.model_spec.name = self.model.name
        response.model_spec.signature_name = "serving_default"
        response.model_spec.version.value = int(self.model.version)
        for name in decoded.details:
            response.outputs[name].CopyFrom(self._tf.make_tensor_proto(np.ascontiguousarray(outputs[name])))
        return response

    def _decode(self, request: Any) -> tuple[dict[str, Any], list[str]]:
        signature = self.model.signature
        arrays: dict[str, Any] = {}
        for name, proto in request.inputs.items():
            if name not in signature.inputs:
                raise RequestProblem(
                    f"inputs: unknown input {name!r}; the model takes {', '.join(signature.inputs)}"
                )
            try:
                array = self._tf.make_ndarray(proto)
            except (ValueError, TypeError) as error:
                raise RequestProblem(f"inputs.{name}: {error}") from error
            signature.input(name, datatype_of(array.dtype.name), list(array.shape))
            arrays[name] = array
        names = [signature.output(name).name for name in request.output_filter] or list(signature.outputs)
        signature.batch_size(arrays)
        return arrays, names

    async def metadata(self, request: Any, context: Any) -> Any:
        """The model's name, version and signature."""
        await self._require(request.model_spec, context)
        model = self.model
        response = self._metadata_pb2.GetModelMetadataResponse()
        response.model_spec.name = model.name
        response.model_spec.version.value = int(model.version)
        signatures = self._metadata_pb2.SignatureDefMap()
        definition = signatures.signature_def["serving_default"]
        for tensors, into in (
            (model.signature.inputs, definition.inputs),
            (model.signature.outputs, definition.outputs),
        ):
            for name, tensor in tensors.items():
                into[name].name = name
                into[name].dtype = self._tf.as_dtype(tensor.dtype).as_datatype_enum
                for size in tensor.shape:
                    into[name].tensor_shape.dim.add(size=size)
        response.metadata["signature_def"].Pack(signatures)
        return response

    async def status(self, request: Any, context: Any) -> Any:
        """AVAILABLE once the model is loaded, LOADING before."""
        await self._require(request.model_spec, context)
        states = self._status_pb2.ModelVersionStatus
        state = states.AVAILABLE if self.model.ready else states.LOADING
        response = self._status_pb2.GetModelStatusResponse()
        response.model_version_status.add(version=int(self.model.version), state=state)
        return response

    def _check(self, spec: Any) -> None:
        if spec.name != self.model.name:
            raise RequestProblem(
                f"model_spec.name: {spec.name!r} is not served here; known: {self.model.name}", status=404
            )
        if spec.signature_name not in ("", "serving_default"):
            raise RequestProblem(
                f"model_spec.signature_name: {spec.signature_name!r} is unknown; known: serving_default"
            )

    async def _require(self, spec: Any, context: Any) -> None:
        await self.require(lambda: self._check(spec), context)
