"""The messages of KServe v2 over gRPC, from one table.

Field numbers and types are those of the protocol's ``grpc_service.proto`` (package ``inference``); why a table:
``docs/adr/0018-protobuf-tables-by-hand.md``.
"""

from __future__ import annotations

from typing import Any

from inferbench_tasks.protocols.proto_table import message_class

SERVICE = "inference.GRPCInferenceService"

_PARAMETERS = "map InferParameter"
_DURATIONS = "StatisticDuration"

#: In the words of ``proto_table``.
MESSAGES: dict[str, tuple[tuple[str, int, str], ...]] = {
    "ServerLiveRequest": (),
    "ServerLiveResponse": (("live", 1, "bool"),),
    "ServerReadyRequest": (),
    "ServerReadyResponse": (("ready", 1, "bool"),),
    "ModelReadyRequest": (("name", 1, "string"), ("version", 2, "string")),
    "ModelReadyResponse": (("ready", 1, "bool"),),
    "ServerMetadataRequest": (),
    "ServerMetadataResponse": (
        ("name", 1, "string"),
        ("version", 2, "string"),
        ("extensions", 3, "[string]"),
    ),
    "ModelMetadataRequest": (("name", 1, "string"), ("version", 2, "string")),
    "ModelMetadataResponse": (
        ("name", 1, "string"),
        ("versions", 2, "[string]"),
        ("platform", 3, "string"),
        ("inputs", 4, "[ModelMetadataResponse.TensorMetadata]"),
        ("outputs", 5, "[ModelMetadataResponse.TensorMetadata]"),
    ),
    "ModelMetadataResponse.TensorMetadata": (
        ("name", 1, "string"),
        ("datatype", 2, "string"),
        ("shape", 3, "[int64]"),
    ),
    "InferParameter": (
        ("bool_param", 1, "oneof bool"),
        ("int64_param", 2, "oneof int64"),
        ("string_param", 3, "oneof string"),
        ("double_param", 4, "oneof double"),
        ("uint64_param", 5, "oneof uint64"),
    ),
    "InferTensorContents": (
        ("bool_contents", 1, "[bool]"),
        ("int_contents", 2, "[int32]"),
        ("int64_contents", 3, "[int64]"),
        ("uint_contents", 4, "[uint32]"),
        ("uint64_contents", 5, "[uint64]"),
        ("fp32_contents", 6, "[float]"),
        ("fp64_contents", 7, "[double]"),
        ("bytes_contents", 8, "[bytes]"),
    ),
    "ModelInferRequest": (
        ("model_name", 1, "string"),
        ("model_version", 2, "string"),
        ("id", 3, "string"),
        ("parameters", 4, _PARAMETERS),
        ("inputs", 5, "[ModelInferRequest.InferInputTensor]"),
        ("outputs", 6, "[ModelInferRequest.InferRequestedOutputTensor]"),
        ("raw_input_contents", 7, "[bytes]"),
    ),
    "ModelInferRequest.InferInputTensor": (
        ("name", 1, "string"),
        ("datatype", 2, "string"),
        ("shape", 3, "[int64]"),
        ("parameters", 4, _PARAMETERS),
        ("contents", 5, "InferTensorContents"),
    ),
    "ModelInferRequest.InferRequestedOutputTensor": (("name", 1, "string"), ("parameters", 2, _PARAMETERS)),
    "ModelInferResponse": (
        ("model_name", 1, "string"),
        ("model_version", 2, "string"),
        ("id", 3, "string"),
        ("parameters", 4, _PARAMETERS),
        ("outputs", 5, "[ModelInferResponse.InferOutputTensor]"),
        ("raw_output_contents", 6, "[bytes]"),
    ),
    "ModelInferResponse.InferOutputTensor": (
        ("name", 1, "string"),
        ("datatype", 2, "string"),
        ("shape", 3, "[int64]"),
        ("parameters", 4, _PARAMETERS),
        ("contents", 5, "InferTensorContents"),
    ),
    "ModelStatisticsRequest": (("name", 1, "string"), ("version", 2, "string")),
    "ModelStatisticsResponse": (("model_stats", 1, "[ModelStatistics]"),),
    "ModelStatistics": (
        ("name", 1, "string"),
        ("version", 2, "string"),
        ("last_inference", 3, "uint64"),
        ("inference_count", 4, "uint64"),
        ("execution_count", 5, "uint64"),
        ("inference_stats", 6, "InferStatistics"),
        ("batch_stats", 7, "[InferBatchStatistics]"),
    ),
    "SystemSharedMemoryStatusRequest": (("name", 1, "string"),),
    "SystemSharedMemoryStatusResponse": (
        ("regions", 1, "map SystemSharedMemoryStatusResponse.RegionStatus"),
    ),
    "SystemSharedMemoryStatusResponse.RegionStatus": (
        ("name", 1, "string"),
        ("key", 2, "string"),
        ("offset", 3, "uint64"),
        ("byte_size", 4, "uint64"),
    ),
    "SystemSharedMemoryRegisterRequest": (
        ("name", 1, "string"),
        ("key", 2, "string"),
        ("offset", 3, "uint64"),
        ("byte_size", 4, "uint64"),
    ),
    "SystemSharedMemoryRegisterResponse": (),
    "SystemSharedMemoryUnregisterRequest": (("name", 1, "string"),),
    "SystemSharedMemoryUnregisterResponse": (),
    "StatisticDuration": (("count", 1, "uint64"), ("ns", 2, "uint64")),
    "InferStatistics": tuple(
        (name, number, _DURATIONS)
        for number, name in enumerate(
            ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output"), start=1
        )
    ),
    "InferBatchStatistics": (
        ("batch_size", 1, "uint64"),
        ("compute_input", 2, _DURATIONS),
        ("compute_infer", 3, _DURATIONS),
        ("compute_output", 4, _DURATIONS),
    ),
}


def message(name: str) -> Any:
    """The class of a message ("ModelInferRequest")."""
    return message_class("inference", name, MESSAGES)
