"""What nobody can have a server of models do, whoever reaches its ports: tested on every backend that can run here."""

from __future__ import annotations

import socket
from typing import Any

import grpc
import psutil
import pytest

from inferbench_tasks.backends.first_answer import check_answer
from inferbench_tasks.doctor.ports import listening
from tests.contract.benches import PROCESSES, Bench, ask, combinations, with_programs
from tests.stranger import ask as stranger

pytestmark = pytest.mark.integration


def processes_only() -> list[Any]:
    """The combinations with processes."""
    return [found for found in combinations(all_protocols=False) if found.values[0][1] == "process"]


@stranger.needs_root
@pytest.mark.parametrize(
    "bench", with_programs([*PROCESSES, ("tfs_protocol", "process")], processes_only()), indirect=True
)
def test_another_local_user_loads_no_model(bench: Bench) -> None:
    """By no port and no API of a server: it answers as before, with its own model."""
    case = bench.case()
    with bench.server() as started:
        handle = psutil.Process(started.server.pid)
        family = [handle, *handle.children(recursive=True)]
        ports = sorted({port for process in family for _, port in listening(process)})
        assert started.endpoint.port in ports
        endings = stranger.ask({"model_ports": ports, "model": case.model.name})
        assert stranger.succeeded(endings) == []
        expected = {"scores": case.reference["scores"][:1]}
        assert check_answer(ask(started.probe, case, 1), expected, case.model, 1, 1e-5) <= 1e-5


@pytest.mark.parametrize("bench", [c for c in processes_only() if c.values[0][0] == "triton"], indirect=True)
def test_the_key_of_what_triton_closes_can_not_be_sent(bench: Bench) -> None:
    """Who reads it in the command line, and sends it over HTTP or gRPC, is refused as everybody is."""
    with bench.server() as started:
        options = dict(
            word.removeprefix("--").split("=", 1)
            for word in psutil.Process(started.server.pid).cmdline()
            if "=" in word
        )
        name, _, value = options["http-restricted-api"].partition(":")[2].partition("=")
        for text in (value, value.replace("\n", "\n "), value.replace("\n", "\r\n ")):
            with socket.create_connection(("127.0.0.1", int(options["http-port"])), timeout=20) as connection:
                connection.sendall(
                    f"GET /v2/systemsharedmemory/status HTTP/1.1\r\nHost: x\r\n{name}: {text}\r\n\r\n".encode()
                )
                answer = connection.recv(100)  # empty where it takes this for no HTTP
                assert not answer or answer.split()[1] in (b"400", b"403"), answer
        name, _, value = options["grpc-restricted-protocol"].partition(":")[2].partition("=")
        metadata = ((f"triton-grpc-protocol-{name}", value),)
        with grpc.insecure_channel(f"127.0.0.1:{options['grpc-port']}") as channel:
            call = channel.unary_unary("/inference.GRPCInferenceService/SystemSharedMemoryStatus")
            with pytest.raises(grpc.RpcError) as refusal:
                call(b"", metadata=metadata, timeout=20)
        assert refusal.value.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL)
