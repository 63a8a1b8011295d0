"""A server that other hosts reach answers who has the run's secret, and nobody else: every backend that can."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.backends.first_answer import check_answer
from inferbench_tasks.backends.probes.base import Refused, open_probe
from inferbench_tasks.backends.probes.tfs_grpc import TfsGrpc
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.doctor.ports import listening
from inferbench_tasks.protocols.kserve_proto import SERVICE
from inferbench_tasks.stages.asked import Asked
from inferbench_tasks.stages.asked import ask as ask_all
from inferbench_tasks.submission.schema import LoadSpec
from tests.contract.benches import PROCESSES, Bench, ask, combinations, with_programs

pytestmark = pytest.mark.integration
SECRET = "abc-DEF_123-0123456789"
ROUTES = (
    "/", "/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/%s", "/v2/models/%s/config", "/v2/models/%s/stats",
    "/v2/repository/index", "/v2/logging", "/v2/trace/setting", "/v2/systemsharedmemory/status", "/metrics",
)  # fmt: skip
METHODS = (
    *(f"{SERVICE}/{name}" for name in (
        "ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer", "ModelStatistics",
        "SystemSharedMemoryStatus", "RepositoryIndex", "ModelStreamInfer", "ModelConfig", "TraceSetting", "LogSettings",
        "CudaSharedMemoryStatus", "None",
    )),
    "grpc.health.v1.Health/Check",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)  # fmt: skip


def guarded() -> list[Any]:
    """The combinations with processes of backends that take a secret: who is let in is the program's, and the gRPC of
    TensorFlow Serving's protocol another one."""
    found = [
        c for c in combinations() if c.values[0][1] == "process" and BACKENDS.load(c.values[0][0]).guarded
    ]
    return with_programs([*PROCESSES, ("tfs_protocol", "process")], found)


@pytest.mark.parametrize("bench", guarded(), indirect=True)
def test_who_has_the_secret_is_answered_and_nobody_else(bench: Bench) -> None:
    """By the probe and by the load's client; without it, or with another, no port of the server tells anything."""
    case = bench.case()
    with bench.server(secret=SECRET) as started:
        expected = {"scores": case.reference["scores"][:1]}
        assert check_answer(ask(started.probe, case, 1), expected, case.model, 1, 1e-5) <= 1e-5
        assert loaded(bench, started.endpoint).statuses == {}
        for wrong in ("", SECRET[:-1], f"{SECRET}x"):
            stranger = started.endpoint.model_copy(update={"secret": wrong})
            probe = open_probe(stranger, 5.0)
            # TensorFlow Serving has no question for it: whoever is refused knows that something is there.
            assert not probe.ready() and (isinstance(probe, TfsGrpc) or not probe.live())
            with pytest.raises((Refused, OSError)):
                ask(probe, case, 1)
            probe.close()
            assert not loaded(bench, stranger).answered.any()
        handle = psutil.Process(started.server.pid)
        family = [handle, *handle.children(recursive=True)]
        ports = {port for process in family for _, port in listening(process)}
        assert started.endpoint.port in ports
        ports -= {
            started.prepared.drawn.get("metrics_port")
        }  # on loopback alone, whatever address the others are on
        for port in ports:
            assert [route for route in ROUTES if told(port, route.replace("%s", case.model.name))] == []
            assert [method for method in METHODS if called(port, method)] == []
        assert SECRET not in Path(started.server.log_path).read_text()


def loaded(bench: Bench, endpoint: Endpoint) -> Asked:
    """What became of all samples, asked by the client of loads."""
    case = bench.case()
    load = LoadSpec.model_validate(
        {"arrivals": {"kind": "closed_loop", "concurrency": 1}, "duration_s": 60, "protocol": bench.protocol}
    )
    folder = bench.folder / f"asked-{endpoint.secret}"
    return ask_all(load, case.samples, case.reference, endpoint, folder=folder, base_dir=bench.folder)


def told(port: int, route: str) -> bool:
    """Whether a GET without a secret is answered with anything but a refusal."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", route)
        return connection.getresponse().status not in (400, 401, 403, 404, 405)
    except (OSError, http.client.HTTPException):
        return False  # no HTTP here
    finally:
        connection.close()


def called(port: int, method: str) -> bool:
    """Whether a call without a secret is answered."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            channel.unary_unary(f"/{method}")(b"", timeout=5)
        except grpc.RpcError as error:
            # A server that would look into the message finds it wrong, and says so.
            return error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)
    return True
