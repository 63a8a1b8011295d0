"""What every serving backend promises, tested on every backend and launcher that can run here."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from inferbench_tasks.backends import startup
from inferbench_tasks.backends.base import BACKENDS, Deployment
from inferbench_tasks.backends.first_answer import check_answer
from inferbench_tasks.backends.probes.base import Refused, open_probe
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError, ServerError
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.launchers import container_network, processes, records
from inferbench_tasks.launchers.base import LAUNCHERS
from inferbench_tasks.launchers.container import LABEL, LOG_CONFIG
from inferbench_tasks.stages.asked import ask as ask_all
from inferbench_tasks.submission.schema import LoadSpec, ServeSpec
from tests import docker_engine
from tests.docker_engine import ENVIRONMENTS
from tests.serving_cases import Case, bare_case, dense_as

pytestmark = pytest.mark.integration

#: The mark of this session's servers: another session beside it has its own.
RUN = f"contract-{os.getpid()}"
#: Not installed, or not built, for every run of the tests.
OPTIONAL = {
    ("mlserver", "process"): "its environment takes minutes to install",
    ("torchserve", "process"): "its environment takes minutes to install",
    ("triton", "container"): "its image takes a minute to build",
}
#: What a server's log says once its model is loaded, and its start once it can't be; ours unless named.
LOADED = {"triton": "successfully loaded"}
BROKEN = {"triton": r"(?s)ended with exit code 1 while starting.*failed to load"}
#: ``INFERBENCH_TEST_CYCLES=100 pytest tests/contract/test_backends.py -k start_and_stop`` goes on for longer.
CYCLES = int(os.environ.get("INFERBENCH_TEST_CYCLES", "2"))


def combinations(all_protocols: bool = True) -> list[Any]:
    """Every built-in backend with every launcher and protocol; those that can't run here say why.

    What does not depend on the protocol is tested with the first one.
    """
    found = []
    for kind in BACKENDS:
        if BACKENDS.origin(kind) != "built-in":
            continue
        backend = BACKENDS.load(kind)
        if backend.streams:  # no tensors: tests/integration/test_prompts_submission.py
            continue
        for launcher in backend.launchers:
            for protocol in backend.protocols if all_protocols else backend.protocols[:1]:
                reason = backend.unavailable(launcher)
                if launcher == "container":
                    reason = docker_engine.impossible() or reason
                    if kind not in docker_engine.IMAGES:
                        reason = reason or "its image is not built by the tests"
                if (kind, launcher) in OPTIONAL and not os.environ.get("INFERBENCH_TEST_OPTIONAL"):
                    reason = f"{OPTIONAL[kind, launcher]}; INFERBENCH_TEST_OPTIONAL=1 runs it"
                marks = [pytest.mark.skip(reason=reason)] if reason else []
                found.append(
                    pytest.param((kind, launcher, protocol), marks=marks, id=f"{kind}-{launcher}-{protocol}")
                )
    return found


def container_only() -> list[Any]:
    """The combinations with containers."""
    return [found for found in combinations(all_protocols=False) if found.values[0][1] == "container"]


def processes_over_http() -> list[Any]:
    """The combinations with processes that speak HTTP."""
    return [found for found in combinations() if found.values[0][1:] == ("process", "http")]


def of_several_formats() -> list[Any]:
    """The combinations whose backend serves more than one format."""
    found = combinations(all_protocols=False)
    return [of for of in found if len(BACKENDS.load(of.values[0][0]).formats) > 1]


def of_onnx() -> list[Any]:
    """The combinations whose backend serves ONNX files."""
    return [found for found in combinations() if "onnx" in BACKENDS.load(found.values[0][0]).formats]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool], Case]:
    """The dense model by format, made once; with a dynamic axis or without."""
    made: dict[tuple[str, bool], Case] = {}
    folder = tmp_path_factory.mktemp("models")

    def case(format_: str, dynamic: bool) -> Case:
        if (format_, dynamic) not in made:
            made[format_, dynamic] = dense_as(format_, folder / f"{format_}-{dynamic}", dynamic)
        return made[format_, dynamic]

    return case


@pytest.fixture(scope="module")
def docker() -> Iterator[None]:
    """A Docker engine."""
    with docker_engine.engine():
        yield


class Bench:
    """Starts one backend by one launcher, in a folder of the test's own."""

    def __init__(self, kind: str, launcher: str, protocol: str, folder: Path, cases: Any) -> None:
        self.backend_class = BACKENDS.load(kind)
        self.launcher = LAUNCHERS.load(launcher)()
        self.launcher_kind, self.kind, self.protocol = launcher, kind, protocol
        self.folder = folder
        self.servers_dir = folder / "servers"
        self._cases = cases
        self._given: Case | None = None

    def case(self, dynamic: bool = False) -> Case:
        """The model in the first format that the backend serves."""
        found: Case = self._given or self._cases(self.backend_class.formats[0], dynamic)
        return found

    def case_in(self, format_: str) -> Case:
        """The model in that format."""
        found: Case = self._cases(format_, False)
        return found

    def use(self, case: Case) -> None:
        """Serve this one instead."""
        self._given = case

    @contextmanager
    def server(
        self, run_id: str = RUN, dynamic: bool = False, rows: int = 8, **spec: Any
    ) -> Iterator[startup.Started]:
        """A started server; ended afterwards, whatever happens."""
        folder = self.folder / run_id
        folder.mkdir(exist_ok=True)
        ENVIRONMENTS.mkdir(exist_ok=True)
        deployment = Deployment(
            run_id,
            self.case(dynamic).model,
            ServeSpec.model_validate({"backend": self.kind, "launcher": self.launcher_kind, **spec}),
            folder,
            ENVIRONMENTS,
            protocol=self.protocol,
            client_batch_size=rows,
        )
        try:
            started = startup.start(self.backend_class(), deployment, self.launcher, self.servers_dir)
            yield started
            started.probe.close()
        finally:
            records.end_run(self.servers_dir, run_id)


@pytest.fixture
def bench(
    request: pytest.FixtureRequest, tmp_path: Path, cases: Callable[[str, bool], Case]
) -> Iterator[Bench]:
    """What a test runs on; nothing of it may be left afterwards."""
    kind, launcher, protocol = request.param
    if launcher == "container":
        request.getfixturevalue("docker")
        docker_engine.build(kind)
    yield Bench(kind, launcher, protocol, tmp_path, cases)
    servers = tmp_path / "servers"
    assert not servers.exists() or list(servers.iterdir()) == []
    assert leftovers(RUN) == []


def leftovers(run_id: str) -> list[str]:
    """Processes that carry a run's mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(processes.MARK, "").startswith(run_id):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def cannot_make(format_: str) -> str | None:
    """Why a model can't be brought into that format here; None if it can."""
    if format_ == "aotinductor" and not os.environ.get("INFERBENCH_TEST_OPTIONAL"):
        return "AOTInductor's compiler takes a minute; INFERBENCH_TEST_OPTIONAL=1 runs it"
    return FORMATS.load(format_)().unavailable()


every = pytest.mark.parametrize("bench", combinations(), indirect=True)
first_protocol = pytest.mark.parametrize("bench", combinations(all_protocols=False), indirect=True)


def ask(probe: Any, case: Case, rows: int, offset: int = 0) -> dict[str, Any]:
    """The answers to ``rows`` samples from ``offset`` on."""
    answer: dict[str, Any] = probe.infer({"x": case.samples["x"][offset : offset + rows]})
    return answer


@every
def test_values_are_the_references_and_bad_input_is_refused(bench: Bench) -> None:
    """Every sample, alone and in batches, is answered as by the source model; so it is after bad requests.

    A wrong shape, dtype and name are errors and no crashes.
    """
    case = bench.case()
    with bench.server() as started:
        for rows in (1, 3, 8):
            for offset in range(0, 24, rows):
                answer = ask(started.probe, case, rows, offset)
                expected = {"scores": case.reference["scores"][offset : offset + rows]}
                assert check_answer(answer, expected, case.model, rows, 1e-5) <= 1e-5
        for bad in (
            {"x": np.zeros((1, 5), np.float32)},
            {"x": np.zeros((1, 6), np.int32)},
            {"y": np.zeros((1, 6), np.float32)},
        ):
            with pytest.raises(Refused):
                started.probe.infer(bad)
        expected = {"scores": case.reference["scores"][:1]}
        assert check_answer(ask(started.probe, case, 1), expected, case.model, 1, 1e-5) <= 1e-5


@pytest.mark.parametrize("bench", of_several_formats(), indirect=True)
def test_its_other_formats_are_served_too(bench: Bench) -> None:
    """A backend of several formats answers as the reference in each of them, alone and in a batch."""
    for format_ in bench.backend_class.formats[1:]:
        if reason := cannot_make(format_):
            pytest.skip(reason)
        case = bench.case_in(format_)
        bench.use(case)
        with bench.server() as started:
            for rows in (1, 8):
                expected = {"scores": case.reference["scores"][:rows]}
                assert check_answer(ask(started.probe, case, rows), expected, case.model, rows, 1e-5) <= 1e-5


@pytest.mark.parametrize("bench", of_onnx(), indirect=True)
def test_one_number_and_one_text_for_each_sample(bench: Bench) -> None:
    """[n] goes in and [n] comes out, by the first answer and under load, whether the server knows bare rows or not."""
    case = bare_case(bench.folder)
    bench.use(case)
    with bench.server() as started:
        for rows in (1, 3):
            answer = started.probe.infer({name: array[:rows] for name, array in case.samples.items()})
            assert check_answer(answer, case.reference, case.model, rows, 1e-5) <= 1e-5
        load = LoadSpec.model_validate(
            {
                "arrivals": {"kind": "closed_loop", "concurrency": 1},
                "duration_s": 60,
                "protocol": bench.protocol,
            }
        )
        folder = bench.folder / "asked"
        found = ask_all(
            load, case.samples, case.reference, started.endpoint, folder=folder, base_dir=bench.folder
        )
    assert found.statuses == {}
    for name, expected in case.reference.items():
        np.testing.assert_array_equal(found.outputs[name], expected)


@first_protocol
def test_dynamic_shapes(bench: Bench) -> None:
    """An axis of any size takes different sizes from request to request."""
    case = bench.case(dynamic=True)
    with bench.server(dynamic=True) as started:
        for length in (1, 5, 3):
            x = case.samples["x"][:2, :length]
            answer = started.probe.infer({"x": x})
            expected = {"scores": case.reference["scores"][:2, :length]}
            assert check_answer(answer, expected, case.model, 2, 1e-5) <= 1e-5


@first_protocol
def test_batching_really_batches(bench: Bench) -> None:
    """Concurrent single requests are executed together, each gets its own answer, the statistics show it."""
    if not bench.backend_class.batching:
        pytest.skip("has no dynamic batching")
    case = bench.case()
    with bench.server(batching={"max_batch_size": 8, "max_delay_ms": 100.0}) as started:
        with ExitStack() as stack:
            probes = [open_probe(started.endpoint) for _ in range(8)]
            for probe in probes:
                stack.callback(probe.close)
            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(lambda n: ask(probes[n], case, 1, n), range(8)))
        for n, answer in enumerate(answers):
            expected = {"scores": case.reference["scores"][n : n + 1]}
            assert check_answer(answer, expected, case.model, 1, 1e-5) <= 1e-5
        statistics = started.backend.statistics(started.probe)
        assert statistics is not None
        assert statistics["inference_count"] == 8
        assert statistics["execution_count"] < 8
        if "batch_stats" in statistics:
            assert max(batch["batch_size"] for batch in statistics["batch_stats"]) > 1


@first_protocol
def test_a_killed_server_is_noticed_within_a_second(bench: Bench) -> None:
    """kill -9: the launcher and the probe both see it."""
    with bench.server() as started:
        os.kill(started.server.pid, signal.SIGKILL)
        deadline = time.monotonic() + 1
        while bench.launcher.alive(started.server):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with pytest.raises((OSError, Refused)):
            ask(started.probe, bench.case(), 1)


@first_protocol
def test_two_servers_side_by_side(bench: Bench) -> None:
    """Different ports, both answer; ending the first leaves the second."""
    case = bench.case()
    with ExitStack() as stack:
        first = stack.enter_context(bench.server(f"{RUN}-1"))
        second = stack.enter_context(bench.server(f"{RUN}-2"))
        assert first.endpoint.port != second.endpoint.port
        ask(first.probe, case, 1)
        records.end_run(bench.servers_dir, f"{RUN}-1")
        assert bench.launcher.alive(second.server)
        ask(second.probe, case, 1)


@first_protocol
@pytest.mark.timeout(300 + 20 * CYCLES)
def test_start_and_stop_leave_nothing_behind(
    bench: Bench, record_property: Callable[[str, object], None]
) -> None:
    """Again and again: no process, no record, no shared memory, no open file of ours.

    Shared memory of other tests' servers, beside this one, comes and goes; what is left behind stays.
    """
    shared_before = set(os.listdir("/dev/shm"))
    this = psutil.Process()
    fast = (bench.kind, bench.launcher_kind) == ("onnxruntime", "process")
    cycles = max(CYCLES, 25) if fast else CYCLES
    record_property("cell", f"{cycles} times")
    for cycle in range(cycles):
        with bench.server(f"{RUN}-{cycle}") as started:
            assert started.process_ms > 0
        if cycle == 0:
            files_before = this.num_fds()
    assert leftovers(RUN) == []
    shared_left = set(os.listdir("/dev/shm")) - shared_before
    deadline = time.monotonic() + 60
    while shared_left := shared_left & set(os.listdir("/dev/shm")):
        assert time.monotonic() < deadline, shared_left
        time.sleep(0.5)
    assert this.num_fds() <= files_before + 2


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


def _post(endpoint: Endpoint, path: str, body: dict[str, Any]) -> int:
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=30)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("bench", processes_over_http(), indirect=True)
def test_nobody_can_have_a_server_load_a_model(bench: Bench) -> None:
    """A port is every local user's: what asks there for another model, which may be code, is refused, and the one that
    is measured stays."""
    hostile = base64.b64encode(b"import os; os.abort()").decode()
    config = json.dumps({"name": "hostile", "backend": "python", "max_batch_size": 0})
    parameters = {"parameters": {"config": config, "file:1/model.py": hostile}}
    with bench.server() as started:
        for path, body in (
            ("/v2/repository/models/hostile/load", parameters),
            (f"/v2/repository/models/{started.endpoint.model_name}/load", parameters),
            ("/models?url=file:///tmp/hostile.mar", {}),
            ("/models/hostile", {}),
        ):
            assert _post(started.endpoint, path, body) >= 400, path
        assert started.backend.ready(started.probe)
