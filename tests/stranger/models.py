"""Loads and unloads of models, by every API that a server of models has."""

from __future__ import annotations

import grpc

from tests.stranger.ending import DONE, TIMEOUT_S, Ending
from tests.stranger.wire import request, speaks_http

#: The calls of gRPC that load or unload a model, or change what a server does, of each kind of server; and the number
#: of the field that names the model or region, 0 where none does.
CALLS = {
    "/inference.GRPCInferenceService/RepositoryModelLoad": 2,
    "/inference.GRPCInferenceService/RepositoryModelUnload": 2,
    "/inference.GRPCInferenceService/SystemSharedMemoryStatus": 1,
    "/inference.GRPCInferenceService/SystemSharedMemoryRegister": 1,
    "/inference.GRPCInferenceService/SystemSharedMemoryUnregister": 1,
    "/inference.GRPCInferenceService/CudaSharedMemoryRegister": 1,
    "/inference.GRPCInferenceService/TraceSetting": 2,
    "/inference.GRPCInferenceService/LogSettings": 2,
    "/inference.model_repository.ModelRepositoryService/RepositoryModelLoad": 2,
    "/inference.model_repository.ModelRepositoryService/RepositoryModelUnload": 2,
    "/tensorflow.serving.ModelService/HandleReloadConfigRequest": 0,
    "/org.pytorch.serve.grpc.management.ManagementAPIsService/RegisterModel": 5,
    "/org.pytorch.serve.grpc.management.ManagementAPIsService/UnregisterModel": 1,
    "/org.pytorch.serve.grpc.management.ManagementAPIsService/ScaleWorker": 1,
    "/org.pytorch.serve.grpc.management.ManagementAPIsService/SetDefault": 1,
}


def model_server(port: int, name: str) -> list[Ending]:
    """By each of them: of the model ``name``, which is there, and of one that is not."""
    if speaks_http(port):
        calls = [
            *(("POST", f"/v2/repository/models/{model}/{act}") for model in (name, "stranger")
              for act in ("load", "unload")),
            ("POST", "/models?url=file:///tmp/stranger.mar&model_name=stranger"), ("DELETE", f"/models/{name}"),
            ("PUT", f"/models/{name}?min_worker=9"), ("POST", f"/v1/models/{name}:load"), ("POST", "/load"),
            ("POST", "/reload"),
            ("POST", "/v2/systemsharedmemory/region/stranger/register"), ("POST", "/v2/systemsharedmemory/unregister"),
            ("POST", "/v2/cudasharedmemory/region/stranger/register"),
            ("POST", f"/v2/models/{name}/trace/setting"), ("POST", "/v2/logging"),
        ]  # fmt: skip
        return [
            {
                "what": "model",
                "where": f"{port} {method} {path}",
                "ending": str(request(port, method, path)[0]),
            }
            for method, path in calls
        ]
    endings = []
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        for path, field in CALLS.items():
            message = bytes((field << 3 | 2, len(name))) + name.encode() if field else b""
            try:
                channel.unary_unary(path)(message, timeout=TIMEOUT_S)
                word = DONE
            except grpc.RpcError as error:
                word = error.code().name
            endings.append({"what": "model", "where": f"{port} {path}", "ending": word})
    return endings
