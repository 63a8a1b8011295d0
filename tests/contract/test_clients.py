"""What every client promises, tested with every client on every kind of server that can run here.

The fast clients speak their protocol by themselves; the others are well-known libraries: aiohttp and grpc.aio
with our requests, and NVIDIA's tritonclient, which writes its own. All must get the same answers from the same
server, and count the same.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.backends import startup
from inferbench_tasks.backends.base import BACKENDS, Deployment
from inferbench_tasks.clients.answers import AnswerCheck, Outputs
from inferbench_tasks.clients.base import CLIENTS, Call, ClientSettings, Sink, client_kind
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError
from inferbench_tasks.launchers import records
from inferbench_tasks.launchers.base import LAUNCHERS
from inferbench_tasks.loadgen.null_server import null_server
from inferbench_tasks.loadgen.outcome import apply_load
from inferbench_tasks.loadgen.payloads import answer_check, build_payloads, protocol_codec
from inferbench_tasks.loadgen.plan import LoadPlan, OutputShape
from inferbench_tasks.loadgen.prepare import prepare
from inferbench_tasks.loadgen.records import codes, column
from inferbench_tasks.submission.schema import LoadSpec, ServeSpec
from tests import nginx
from tests.load_servers import endpoint
from tests.serving_cases import CLASSES, Case, dense_as, dense_case

pytestmark = pytest.mark.integration
LIBRARIES = ("reference", "tritonclient")
ENVIRONMENTS = Path(sys.prefix) / "inferbench-test-envs"


@dataclass(frozen=True)
class Target:
    """A running server; ``reference``: its right answers to the case's samples, None if it has none."""

    where: Endpoint
    case: Case
    outputs: dict[str, int]
    reference: dict[str, Any] | None


def _backend_reason(kind: str) -> str | None:
    return BACKENDS.load(kind).unavailable("process")


_NGINX = nginx.missing()
SERVERS = [
    pytest.param("onnxruntime-http", id="onnxruntime-http"),
    pytest.param("onnxruntime-grpc", id="onnxruntime-grpc"),  # a grpcio server
    *(
        pytest.param(
            f"triton-{protocol}",
            id=f"triton-{protocol}",
            marks=[
                pytest.mark.skipif(bool(_backend_reason("triton")), reason=str(_backend_reason("triton")))
            ],
        )
        for protocol in ("http", "grpc")
    ),
    pytest.param(
        "tfs_protocol-grpc",
        id="tfs_protocol-grpc",
        marks=[
            pytest.mark.skipif(
                bool(_backend_reason("tfs_protocol")), reason=str(_backend_reason("tfs_protocol"))
            )
        ],
    ),
    *(
        pytest.param(name, id=name, marks=[pytest.mark.skipif(bool(_NGINX), reason=str(_NGINX))])
        for name in ("nginx-lua-http", "nginx-proxy-http", "nginx-proxy-grpc")
    ),
    pytest.param("null-http", id="null-http"),
    pytest.param("null-grpc", id="null-grpc"),
    pytest.param("null-grpc_tfs", id="null-grpc_tfs"),
]
REAL_HTTP = [server for server in SERVERS if server.id in ("onnxruntime-http", "triton-http")]


@contextmanager
def running(name: str, folder: Path) -> Iterator[Target]:
    """The server of that name."""
    kind, _, protocol = name.rpartition("-")
    case = dense_case(folder)
    with ExitStack() as stack:
        if kind in ("onnxruntime", "triton", "tfs_protocol"):
            yield stack.enter_context(_backend(kind, protocol, folder))
            return
        if kind == "null":
            where = stack.enter_context(null_server(protocol, 4 * CLASSES))
        elif kind == "nginx-lua":
            canned = nginx.nginx(folder / "nginx", canned_bytes=4 * CLASSES)
            where = endpoint("http", stack.enter_context(canned))
        else:
            behind = stack.enter_context(null_server(protocol, 4 * CLASSES))
            proxy = nginx.nginx(
                folder / "nginx", in_front_of=behind.port, grpc=protocol == "grpc", keepalive_requests=50
            )
            where = endpoint(protocol, stack.enter_context(proxy))
        yield Target(where, case, {"output": CLASSES}, None)


@contextmanager
def _backend(kind: str, protocol: str, folder: Path) -> Iterator[Target]:
    backend = BACKENDS.load(kind)
    case = dense_as(backend.formats[0], folder / "model")
    ENVIRONMENTS.mkdir(exist_ok=True)
    server = folder / "server"
    server.mkdir()
    spec = ServeSpec.model_validate({"backend": kind, "batching": {"max_batch_size": 8}})
    deployment = Deployment(
        "clients", case.model, spec, server, ENVIRONMENTS, protocol=protocol, client_batch_size=4
    )
    launcher = LAUNCHERS.load("process")()
    try:
        started = startup.start(backend(), deployment, launcher, folder / "servers")
        yield Target(started.endpoint, case, {"scores": CLASSES}, case.reference)
        started.probe.close()
    finally:
        records.end_run(folder / "servers", "clients")


@pytest.fixture(scope="module", params=SERVERS)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Every server in turn, started once."""
    with running(request.param, tmp_path_factory.mktemp("server")) as found:
        yield found


def plan_for(target: Target, folder: Path, client: str, **options: Any) -> LoadPlan:
    """A plan with the case's samples as requests."""
    np.savez(folder / "inputs.npz", **target.case.samples)  # type: ignore[arg-type]
    fields = {"duration_s": 0.6, "warmup_s": 0.2, "timeout_ms": 5000.0, "client": client, **options}
    return prepare(
        LoadSpec.model_validate({"arrivals": {"kind": "closed_loop", "concurrency": 4}, **fields}),
        folder=folder / client,
        endpoint=target.where,
        inputs_path=str(folder / "inputs.npz"),
        base_dir=folder,
        expected={name: OutputShape(shape=(size,)) for name, size in target.outputs.items()}
        if fields.get("batch_size", 1) == 1 or target.reference is not None
        else None,
    )


def speaks(client: str, target: Target, folder: Path) -> bool:
    """Whether a client has the server's protocol; a plan with one that has it not is refused with its reason."""
    if client_kind(target.where.protocol, client) in CLIENTS:
        return True
    assert (client, target.where.protocol) == ("tritonclient", "grpc_tfs")
    with pytest.raises(
        InputError, match=r"'tritonclient' does not speak grpc_tfs; these do: fast, reference"
    ):
        plan_for(target, folder, client)
    return False


class Collect(Sink):
    """Hears of one call at a time."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.words: list[str] = []

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        self.ended.set_result(status)

    def ready(self) -> None:
        """Nothing waits."""

    def again(self, call: Call) -> None:
        self.ended.set_result("again")

    def unreachable(self, reason: str) -> None:
        self.words.append(reason)

    def explain(self, status: str, text: str) -> None:
        self.words.append(text)


class Timed(Collect):
    """Also knows when."""

    done_ns = -1

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        self.done_ns = done_ns
        super().finish(call, status, done_ns)


def answers_of(plan: LoadPlan) -> dict[int, Outputs]:
    """Each distinct request sent once; the outputs by the first sample of the request."""
    seen: list[Outputs] = []

    class Keep(AnswerCheck):
        def known(self, batch_size: int, length: int) -> bool:
            return False

        def check(self, outputs: Outputs, batch_size: int) -> None:
            seen.append(outputs)
            super().check(outputs, batch_size)

    async def ask() -> dict[int, Outputs]:
        loop = asyncio.get_running_loop()
        sink = Collect()
        check = Keep(protocol_codec(plan)[1], answer_check(plan)._expected)
        factory = CLIENTS.load(client_kind(plan.endpoint.protocol, plan.client))
        client = factory(ClientSettings(plan.endpoint, 2), loop, sink, check)
        await client.open(2)
        found = {}
        try:
            for number, payload in enumerate(build_payloads(plan)):
                status = "again"
                while status == "again":
                    sink.ended = loop.create_future()
                    while not client.send(Call(number, 0, payload)):
                        client.want(1)
                        await asyncio.sleep(0.005)
                    status = await asyncio.wait_for(sink.ended, 20)
                assert status == "ok", sink.words
                found[payload.sample_index] = seen[-1]
        finally:
            await client.close()
        return found

    return asyncio.run(ask())


@pytest.mark.parametrize("batch_size", [1, 4])
def test_all_clients_get_the_same_and_the_right_answers(
    target: Target, tmp_path: Path, batch_size: int
) -> None:
    """Every request's outputs are equal by all clients, and equal the model's own where there is one."""
    if target.reference is None and batch_size > 1:
        pytest.skip("this server gives the same answer to everything")
    fast = answers_of(plan_for(target, tmp_path, "fast", batch_size=batch_size))
    for library in LIBRARIES:
        if not speaks(library, target, tmp_path):
            continue
        theirs = answers_of(plan_for(target, tmp_path, library, batch_size=batch_size))
        assert fast.keys() == theirs.keys()
        for index, outputs in fast.items():
            assert outputs.keys() == theirs[index].keys()
            for name, array in outputs.items():
                assert array.dtype == theirs[index][name].dtype
                np.testing.assert_array_equal(array, theirs[index][name])
    for index, outputs in fast.items():
        if target.reference is not None:
            (right,) = target.reference.values()
            rows = np.arange(index, index + batch_size) % len(right)
            (got,) = outputs.values()
            np.testing.assert_allclose(np.asarray(got, np.float64), right[rows], rtol=1e-4, atol=1e-5)


def latencies_ms(plans: list[LoadPlan], requests: int) -> list[list[float]]:
    """Latencies of the same requests by each plan's client, one request at a time, the clients in turn."""

    async def ask() -> list[list[float]]:
        loop = asyncio.get_running_loop()
        found: list[list[float]] = [[] for _ in plans]
        pairs = []
        try:
            for plan in plans:
                sink = Timed()
                factory = CLIENTS.load(client_kind(plan.endpoint.protocol, plan.client))
                client = factory(ClientSettings(plan.endpoint, 1), loop, sink, answer_check(plan))
                pairs.append((client, sink))
                await client.open(1)
            payloads = build_payloads(plans[0])
            for number in range(requests):
                for (client, sink), kept in zip(pairs, found, strict=True):
                    call = Call(number, 0, payloads[number % len(payloads)])
                    sink.ended = loop.create_future()
                    while not client.send(call):
                        client.want(1)
                        await asyncio.sleep(0.005)
                    status = await asyncio.wait_for(sink.ended, 20)
                    if status == "ok":
                        kept.append((sink.done_ns - call.sent_ns) / 1e6)
        finally:
            for client, _ in pairs:
                await client.close()
        return found

    return asyncio.run(ask())


@pytest.mark.parametrize("target", REAL_HTTP, indirect=True)
@pytest.mark.parametrize("client", ["fast", *LIBRARIES])
def test_tensors_as_json_are_answered_as_json(target: Target, tmp_path: Path, client: str) -> None:
    """Without the binary extension every client gets the model's own answers, too."""
    assert target.reference is not None
    plan = plan_for(target, tmp_path, client).model_copy(update={"binary": False})
    (right,) = target.reference.values()
    for index, outputs in answers_of(plan).items():
        (got,) = outputs.values()
        np.testing.assert_allclose(np.asarray(got, np.float64), right[[index]], rtol=1e-4, atol=1e-5)


@pytest.mark.flaky(reruns=1)
def test_all_clients_see_the_same_latency(target: Target, tmp_path: Path) -> None:
    """Request by request in turn: the medians differ by what a library costs and no more.

    The bounds are wide: a client that waited for a timer or for a delayed acknowledgement (40 ms) shows, the
    machine's noise does not, since it meets both alike.
    """
    able = [client for client in ("fast", *LIBRARIES) if speaks(client, target, tmp_path)]
    measured = latencies_ms([plan_for(target, tmp_path, client) for client in able], 60)
    assert min(len(latencies) for latencies in measured) >= 50
    fast_ms, *libraries_ms = (float(np.median(latencies[5:])) for latencies in measured)
    for library_ms in libraries_ms:
        assert fast_ms <= 1.5 * library_ms + 2.0
        assert library_ms <= 3.0 * fast_ms + 10.0


CLOSED: dict[str, Any] = {"kind": "closed_loop", "concurrency": 4}
OPEN: dict[str, Any] = {"kind": "poisson", "rate_rps": 150}
#: An open load on every kind of server, a closed one on ours; who waits for whom is the client's. `make test` leaves
#: out servers that answer nothing else than one of the others.
NO_OTHER = ("null-http", "null-grpc")


def each_load() -> list[Any]:
    """Server and arrivals."""
    found = []
    for server in SERVERS:
        for arrivals in (CLOSED, OPEN):
            usual = server.id not in NO_OTHER if arrivals is OPEN else "onnxruntime" in str(server.id)
            marks = [*server.marks, *([] if usual else [pytest.mark.long])]
            name = f"{server.id}-{arrivals['kind']}"
            found.append(pytest.param(*server.values, arrivals, marks=marks, id=name))
    return found


@pytest.mark.parametrize(("target", "arrivals"), each_load(), indirect=["target"])
def test_a_load_is_answered_whole(target: Target, tmp_path: Path, arrivals: dict[str, Any]) -> None:
    """Open and closed loop, by every client: each request ends well, with its times in order and its bytes counted.

    Of one open schedule all clients leave the same records, but for what is measured.
    """
    tables = {}
    for client in ("fast", *LIBRARIES):
        if not speaks(client, target, tmp_path):
            continue
        plan = plan_for(target, tmp_path, client, arrivals=arrivals)
        outcome = apply_load(plan, tmp_path / f"{client}.parquet")
        assert outcome.applied.problem is None, client
        tables[client] = table = outcome.table()
        status, names = codes(table, "status")
        assert {names[code] for code in status} == {"ok"}, (client, outcome.applied.explanations)
        assert outcome.requests > 20, client
        moments = ["intended_ns", "sent_ns", "first_byte_ns", "done_ns"]
        if client == "tritonclient" or (client == "reference" and target.where.protocol != "http"):
            moments.remove("first_byte_ns")  # neither grpc.aio nor tritonclient tells it
            assert (column(table, "first_byte_ns") == -1).all(), client
        times = [column(table, name) for name in moments]
        for earlier, later in pairwise(times):
            assert (earlier <= later).all(), client
        assert (column(table, "bytes_sent") > 0).all(), client
        assert (column(table, "bytes_received") > 0).all(), client
        assert len(set(column(table, "request_id").tolist())) == outcome.requests, client
        if arrivals["kind"] == "closed_loop":
            assert sum(outcome.certificate(plan).figures["errors"].values()) == 0, client
    if arrivals["kind"] == "poisson":
        same_records(tables)


def same_records(tables: dict[str, Any]) -> None:
    """The same requests at the same intended times, with the same sizes.

    The libraries tell an answer's body alone, the fast HTTP client its head too.
    """

    def values(client: str, name: str) -> Any:
        return column(tables[client], name)[np.argsort(column(tables[client], "request_id"))]

    for client in tables:
        for name in ("request_id", "sample_index", "batch_size", "bytes_sent"):
            np.testing.assert_array_equal(values(client, name), values("fast", name))
        np.testing.assert_array_equal(
            np.diff(values(client, "intended_ns")), np.diff(values("fast", "intended_ns"))
        )
        assert (values(client, "bytes_received") <= values("fast", "bytes_received")).all()
    if "tritonclient" in tables:
        np.testing.assert_array_equal(
            values("tritonclient", "bytes_received"), values("reference", "bytes_received")
        )


@pytest.mark.parametrize("client", ["fast", *(pytest.param(of, marks=pytest.mark.long) for of in LIBRARIES)])
def test_an_unknown_model_is_an_error_of_the_server_with_its_words(
    target: Target, tmp_path: Path, client: str
) -> None:
    """The server's refusal is a status of its own kind, and what it said is kept."""
    if target.reference is None:
        pytest.skip("this server knows every model")
    if not speaks(client, target, tmp_path):
        return
    other = target.where.model_copy(update={"model_name": "nosuch"})
    plan = plan_for(Target(other, target.case, target.outputs, None), tmp_path, client, max_error_ratio=1.0)
    outcome = apply_load(plan, tmp_path / "samples.parquet")
    assert outcome.requests > 0
    kinds = set(outcome.certificate(plan).figures["errors"])
    assert kinds == ({"http_4xx"} if target.where.protocol == "http" else {"grpc_not_found"})
    assert "nosuch" in " ".join(outcome.applied.explanations.values())
