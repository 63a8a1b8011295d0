"""TensorFlow Serving's gRPC protocol on our own server: a stand-in, not TensorFlow Serving.

It exists so that the client path of TensorFlow Serving can be run where its binary can't. The messages
are the genuine ones of the package tensorflow-serving-api.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from inferbench_tasks.servers.datatypes import datatype_of
from inferbench_tasks.servers.model import ServedModel
from inferbench_tasks.servers.problem import RequestProblem


class TfsServer:
    """``PredictionService/Predict``, ``GetModelMetadata`` and ``ModelService/GetModelStatus``."""

    def __init__(self, model: ServedModel, version: str) -> None:
        import grpc
        import tensorflow as tf
        from grpc import aio
        from tensorflow_serving.apis import (
            get_model_metadata_pb2,
            get_model_status_pb2,
            model_service_pb2_grpc,
            predict_pb2,
            prediction_service_pb2_grpc,
        )

        self._tf = tf
        self._grpc = grpc
        self._model = model
        self._predict_pb2: Any = predict_pb2
        self._status_pb2: Any = get_model_status_pb2
        self._metadata_pb2: Any = get_model_metadata_pb2
        limit = model.config.max_request_bytes
        self._server = aio.server(
            options=[
                ("grpc.max_receive_message_length", limit),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
            ]
        )
        front = self

        class Prediction(prediction_service_pb2_grpc.PredictionServiceServicer):  # type: ignore[misc]
            async def Predict(self, request: Any, context: Any) -> Any:
                return await front.predict(request, context)

            async def GetModelMetadata(self, request: Any, context: Any) -> Any:
                return await front.metadata(request, context)

        class Status(model_service_pb2_grpc.ModelServiceServicer):  # type: ignore[misc]
            async def GetModelStatus(self, request: Any, context: Any) -> Any:
                return await front.status(request, context)

        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Prediction(), self._server)
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(Status(), self._server)

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. OSError where it can't be bound."""
        try:
            bound: int = self._server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            raise OSError(98, str(error)) from error
        await self._server.start()
        return bound

    async def stop(self) -> None:
        """End, giving running calls two seconds."""
        await self._server.stop(2)

    async def predict(self, request: Any, context: Any) -> Any:
        """Run the model once; the spans come as trailing metadata."""
        started_ns = time.monotonic_ns()
        model = self._model
        try:
            self._check(request.model_spec)
            arrays, names = self._decode(request)
            decoded_ns = time.monotonic_ns()
            execution = await model.execute(arrays, model.signature.batch_size(arrays))
        except RequestProblem as problem:
            model.statistics.failed(time.monotonic_ns() - started_ns)
            await context.abort(self._code(problem.status), str(problem))
            raise
        if execution.error is not None:
            error = execution.error
            await context.abort(
                self._grpc.StatusCode.INTERNAL, f"inference failed: {type(error).__name__}: {error}"
            )
        resumed_ns = time.monotonic_ns()
        assert execution.outputs is not None
        response = self._predict_pb2.PredictResponse()
        response.model_spec.name = model.name
        response.model_spec.signature_name = "serving_default"
        response.model_spec.version.value = int(model.version)
        for name in names:
            tensor = self._tf.make_tensor_proto(np.ascontiguousarray(execution.outputs[name]))
            response.outputs[name].CopyFrom(tensor)
        context.set_trailing_metadata(
            (
                ("x-inferbench-queue-ns", str(execution.queue_ns)),
                ("x-inferbench-inference-ns", str(execution.infer_ns)),
                ("x-inferbench-preprocess-ns", str(decoded_ns - started_ns + execution.input_ns)),
                ("x-inferbench-postprocess-ns", str(time.monotonic_ns() - resumed_ns + execution.output_ns)),
            )
        )
        return response

    def _decode(self, request: Any) -> tuple[dict[str, Any], list[str]]:
        signature = self._model.signature
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
        model = self._model
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
        state = states.AVAILABLE if self._model.ready else states.LOADING
        response = self._status_pb2.GetModelStatusResponse()
        response.model_version_status.add(version=int(self._model.version), state=state)
        return response

    def _check(self, spec: Any) -> None:
        if spec.name != self._model.name:
            raise RequestProblem(
                f"model_spec.name: {spec.name!r} is not served here; known: {self._model.name}", status=404
            )
        if spec.signature_name not in ("", "serving_default"):
            raise RequestProblem(
                f"model_spec.signature_name: {spec.signature_name!r} is unknown; known: serving_default"
            )

    async def _require(self, spec: Any, context: Any) -> None:
        try:
            self._check(spec)
        except RequestProblem as problem:
            await context.abort(self._code(problem.status), str(problem))

    def _code(self, status: int) -> Any:
        codes = self._grpc.StatusCode
        return {404: codes.NOT_FOUND, 503: codes.UNAVAILABLE}.get(status, codes.INVALID_ARGUMENT)
