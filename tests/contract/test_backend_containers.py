"""What every serving backend promises in a container: no privileges, a network of its own, images that are allowed."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.backends.first_answer import check_answer
from inferbench_tasks.errors import InputError, ServerError
from inferbench_tasks.launchers import container_network
from inferbench_tasks.launchers.container import LABEL, LOG_CONFIG
from tests.contract.benches import Bench, ask, combinations
from tests.serving_cases import Case

pytestmark = pytest.mark.integration
#: What a server's log says once its model is loaded, and its start once it can't be; ours unless named.
LOADED = {"triton": "successfully loaded"}
BROKEN = {"triton": r"(?s)ended with exit code 1 while starting.*failed to load"}


def container_only() -> list[Any]:
    """The combinations with containers."""
    return [found for found in combinations(all_protocols=False) if found.values[0][1] == "container"]


@pytest.mark.parametrize("bench", container_only(), indirect=True)
def test_a_container_has_no_privileges_and_its_log_is_kept(bench: Bench) -> None:
    """No capabilities, a read-only root, no new privileges, a limit on processes; gone afterwards."""
    import docker

    client = docker.from_env()
    try:
        with bench.server() as started:
            host = client.containers.get(str(started.server.container_id)).attrs["HostConfig"]
            assert host["CapDrop"] == ["ALL"]
            assert host["ReadonlyRootfs"]
            assert not host["Privileged"]
            assert host["SecurityOpt"] == ["no-new-privileges"]
            assert host["PidsLimit"] > 0
        assert client.containers.list(all=True) == []
        assert LOADED.get(bench.kind, "model ready") in Path(started.server.log_path).read_text()
    finally:
        client.close()


@pytest.mark.parametrize("bench", container_only(), indirect=True)
def test_a_container_has_a_network_of_its_own(bench: Bench) -> None:
    """An internal one, with no other member; no port of this machine is its; both are gone afterwards."""
    import docker

    client = docker.from_env()
    try:
        with bench.server() as started:
            container = client.containers.get(str(started.server.container_id))
            (network,) = container.attrs["NetworkSettings"]["Networks"].values()
            about = client.networks.get(network["NetworkID"]).attrs
            assert about["Internal"] and list(about["Containers"]) == [container.id]
            assert started.endpoint.host == started.server.address == network["IPAddress"]
            assert not container.attrs["HostConfig"]["PortBindings"]
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", started.endpoint.port), timeout=5)
            assert container.attrs["HostConfig"]["LogConfig"]["Config"] == LOG_CONFIG
            assert container.attrs["Image"] == started.server.image_id
        assert client.networks.list(filters={"label": LABEL}) == []
    finally:
        client.close()


@pytest.mark.parametrize("bench", container_only(), indirect=True)
def test_a_container_may_stay_in_the_hosts_network(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """For engines that can make no other: the operator's setting, and the server is loopback's."""
    monkeypatch.setenv(container_network.NETWORK, "host")
    case = bench.case()
    with bench.server() as started:
        assert started.endpoint.host == started.server.address == "127.0.0.1"
        expected = {"scores": case.reference["scores"][:1]}
        assert check_answer(ask(started.probe, case, 1), expected, case.model, 1, 1e-5) <= 1e-5


@pytest.mark.parametrize("bench", container_only(), indirect=True)
def test_a_submissions_image_must_be_on_the_operators_list(bench: Bench) -> None:
    """By its digest, whatever its tag; the message has what to add, and then it runs, under any of its names."""
    tag = f"inferbench/server:{bench.kind}"
    with pytest.raises(
        InputError, match=r"not on this system's list of allowed images.*sha256:[0-9a-f]{64}"
    ) as refused:
        with bench.server(image=tag):
            pass
    assert refused.value.field == "serve.image"
    (digest,) = set(re.findall(r"sha256:[0-9a-f]{64}", str(refused.value)))
    (bench.folder / "images.txt").write_text(f"# allowed here\n{digest}  # ours\n")
    with bench.server(image=tag) as started:
        assert started.server.image_id == digest


@pytest.mark.parametrize("bench", container_only(), indirect=True)
def test_an_image_that_is_not_there_is_named(bench: Bench) -> None:
    """With the remedy, and no record of a server stays."""
    with pytest.raises(ServerError, match=r"The image inferbench/nonesuch:1 is not on this machine"):
        with bench.server(image="inferbench/nonesuch:1"):
            pass


@pytest.mark.parametrize("bench", container_only(), indirect=True)
def test_a_container_that_dies_at_start_shows_its_log(bench: Bench) -> None:
    """The reason from inside, and how it ended."""
    case = bench.case()
    broken = bench.folder / "broken.onnx"
    broken.write_bytes(Path(case.model.path).read_bytes()[:100])
    model = case.model.model_copy(update={"path": str(broken)})
    bench.use(Case(model, case.samples, case.reference))
    ours = r"(?s)ended with exit code 1 while starting.*can't be loaded"
    with pytest.raises(ServerError, match=BROKEN.get(bench.kind, ours)):
        with bench.server():
            pass
