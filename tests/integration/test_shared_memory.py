"""``load.transport: shared_memory`` with real servers, over HTTP and gRPC: right answers, and nothing left behind."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

from inferbench_tasks.backends.triton import Triton
from inferbench_tasks.clients.shared_memory import infer
from inferbench_tasks.errors import InputError, LoadError
from inferbench_tasks.launchers import records
from inferbench_tasks.loadgen.shared_inputs import registered, write
from inferbench_tasks.protocols.shared_memory import path_of
from inferbench_tasks.settings import servers_dir
from inferbench_tasks.stages import load, serve
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.load_order import shared_layout
from inferbench_tasks.stages.shared_memory import compare
from tests.serving_cases import bare_case, dense_case, serve_input, served, to_load

pytestmark = pytest.mark.integration

SHARED = {
    "transport": "shared_memory", "arrivals": {"kind": "closed_loop", "concurrency": 4}, "batch_size": 3,
    "duration_s": 1.0, "warmup_s": 0.2, "wait_for_quiet_s": 0.0,
}  # fmt: skip
WHY_NOT = Triton.unavailable("process")
TRITON = pytest.mark.skipif(bool(WHY_NOT), reason=str(WHY_NOT))


@pytest.fixture(scope="module")
def ceilings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What this machine's senders can do alone, which the first load of its kind measures for all."""
    return tmp_path_factory.mktemp("ceilings")


@pytest.fixture
def ctx(tmp_path: Path, ceilings: Path) -> Context:
    """A data directory with the environments that the contract's tests have made, or will."""
    environments = Path(sys.prefix) / "inferbench-test-envs"
    environments.mkdir(exist_ok=True)
    (tmp_path / "data" / "cache").mkdir(parents=True)
    (tmp_path / "data" / "cache" / "envs").symlink_to(environments)
    (tmp_path / "data" / "cache" / "ceilings").symlink_to(ceilings)
    return Context(data_dir=tmp_path / "data", base_dir=tmp_path)


@contextmanager
def loaded(folder: Path, ctx: Context, backend: str, **changes: Any) -> Iterator[load.Input]:
    """A server of the dense model, and what ``load`` takes."""
    inp = serve_input(dense_case(folder), folder, "shared", backend=backend, load={**SHARED, **changes})
    with served(inp, ctx) as output:
        yield to_load(inp, output)


@pytest.mark.parametrize(
    ("backend", "protocol"),
    [
        ("onnxruntime", "http"),
        ("onnxruntime", "grpc"),
        pytest.param("triton", "http", marks=[TRITON, pytest.mark.long]),
        pytest.param("triton", "grpc", marks=TRITON),
    ],
)
def test_a_load_reads_its_inputs_from_shared_memory(
    tmp_path: Path, ctx: Context, backend: str, protocol: str
) -> None:
    """Each place gives the model's answer to its samples; the load's requests are good; the file goes at the end."""
    with loaded(tmp_path, ctx, backend, protocol=protocol) as inp:
        assert inp.serve.shared_memory is not None
        region = path_of(inp.serve.shared_memory)
        assert (region.stat().st_size, region.stat().st_mode & 0o777) == (0, 0o600)
        case = dense_case(tmp_path)
        shared = shared_layout(inp)
        assert shared is not None
        write(shared, case.samples)
        with registered(shared, inp.serve.endpoint):
            for first in (0, 7, shared.samples - 1):
                answer = infer(inp.serve.endpoint, shared.tensors(first, 3))
                rows = np.arange(first, first + 3) % shared.samples
                scores = answer["scores"].astype(np.float32)
                np.testing.assert_allclose(scores, case.reference["scores"][rows], rtol=1e-4)
        with pytest.raises(LoadError, match="shared memory"):
            infer(inp.serve.endpoint, shared.tensors(0, 3))  # unregistered
        output = load.run(inp, ctx)
        assert output.certificate["figures"]["errors"] == {}
        assert output.requests > 20
    assert not region.exists()


@pytest.mark.long
def test_the_reference_client_sends_the_same(tmp_path: Path, ctx: Context) -> None:
    """aiohttp passes on where the inputs lie."""
    with loaded(tmp_path, ctx, "onnxruntime", client="reference") as inp:
        assert load.run(inp, ctx).certificate["figures"]["errors"] == {}


def test_nvidias_clients_register_with_our_server(tmp_path: Path, ctx: Context) -> None:
    """Status, register and unregister of both of its libraries; a key of somebody else's is refused."""
    with loaded(tmp_path, ctx, "onnxruntime", protocol="grpc") as inp:
        key = inp.serve.shared_memory
        assert key is not None
        os.truncate(path_of(key), 4096)
        port = inp.serve.endpoint.port
        with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{port}") as client:
            assert "system_shared_memory" in client.get_server_metadata().extensions
            client.register_system_shared_memory("mine", key, 4096)
            (status,) = client.get_system_shared_memory_status().regions.values()
            assert (status.name, status.key, status.byte_size) == ("mine", key, 4096)
            with pytest.raises(Exception, match="not the one that this server was started with"):
                client.register_system_shared_memory("other", "../../etc/passwd", 16)
            client.unregister_system_shared_memory("mine")
            assert not client.get_system_shared_memory_status().regions


def test_nvidias_http_client_does_so_too(tmp_path: Path, ctx: Context) -> None:
    """A body that is no registration, or too large for one, is refused."""
    with loaded(tmp_path, ctx, "onnxruntime") as inp:
        key, where = inp.serve.shared_memory, inp.serve.endpoint
        assert key is not None
        os.truncate(path_of(key), 4096)
        with tritonclient.http.InferenceServerClient(where.url) as client:
            client.register_system_shared_memory("mine", key, 4000, offset=96)
            told = {"name": "mine", "key": key, "offset": 96, "byte_size": 4000}
            assert client.get_system_shared_memory_status() == [told]
            assert client.get_system_shared_memory_status("mine") == [told]
            with pytest.raises(Exception, match="4001 bytes from 96 on are given"):
                client.register_system_shared_memory("other", key, 4001, offset=96)
            client.unregister_system_shared_memory()
            assert client.get_system_shared_memory_status() == []
        for body, status in ((b"{", 400), (b"[]", 400), (b" " * 5000, 413)):
            connection = http.client.HTTPConnection(where.host, where.port, timeout=10)
            connection.request("POST", "/v2/systemsharedmemory/region/x/register", body)
            assert connection.getresponse().status == status
            connection.close()


def test_a_server_without_it_has_no_region_and_refuses(tmp_path: Path, ctx: Context) -> None:
    """Over the network nothing is made and nothing can be registered."""
    with loaded(tmp_path, ctx, "onnxruntime", transport="network") as inp:
        assert inp.serve.shared_memory is None
        with tritonclient.http.InferenceServerClient(inp.serve.endpoint.url) as client:
            assert "system_shared_memory" not in client.get_server_metadata()["extensions"]
            with pytest.raises(Exception, match="not started for it"):
                client.register_system_shared_memory("x", "x", 16)


def test_texts_are_refused_before_the_server_starts(tmp_path: Path, ctx: Context) -> None:
    """Only the samples tell that there are some."""
    inp = serve_input(bare_case(tmp_path), tmp_path, "texts", load=SHARED)
    with pytest.raises(InputError, match=r"load.transport: input word has texts"):
        serve.run(inp, ctx)
    assert not list(servers_dir(ctx.data_dir).glob("*.json"))


def test_an_answer_to_other_inputs_ends_the_load(tmp_path: Path, ctx: Context) -> None:
    """What a server reads there is compared with what it answers over the network."""
    expected = {"scores": np.array([[1.0, 2.0]], np.float32)}
    compare({"scores": np.array([[1.0, 2.001]], np.float32)}, expected, 0)
    for wrong in ({"scores": np.zeros((1, 2), np.float32)}, {"scores": np.zeros(2, np.float32)}, {}):
        with pytest.raises(LoadError, match="the request with sample 0 in shared memory"):
            compare(wrong, expected, 0)


KILLED = """
import sys
from pathlib import Path
from inferbench_tasks.stages import load
from inferbench_tasks.stages.base import Context
inp = load.Input.model_validate_json(Path(sys.argv[1]).read_bytes())
load.run(inp, Context(data_dir=Path(sys.argv[2]), base_dir=Path(sys.argv[2])))
"""


@pytest.mark.parametrize("whose", [pytest.param("load", marks=pytest.mark.long), "server"])
def test_a_killed_load_or_server_leaves_nothing_in_shared_memory(
    tmp_path: Path, ctx: Context, whose: str
) -> None:
    """SIGKILL while requests are under way: what ends the run's servers removes the region."""
    inp = serve_input(
        dense_case(tmp_path), tmp_path, "killed", load={**SHARED, "duration_s": 60.0, "protocol": "grpc"}
    )
    output = serve.run(inp, ctx)
    try:
        given = load.Input(run_id="killed", job_id="job", job=inp.job, generate=inp.generate, serve=output)
        (tmp_path / "inp.json").write_text(given.model_dump_json())
        assert output.shared_memory is not None
        region = path_of(output.shared_memory)
        command = [
            sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "inp.json"), str(ctx.data_dir),
        ]  # fmt: skip
        with subprocess.Popen(command, start_new_session=True) as loading:
            deadline = time.monotonic() + 60
            spools = ctx.run_dir("killed") / "load"
            while not any(p.stat().st_size for p in spools.glob("*.spool")) and time.monotonic() < deadline:
                assert loading.poll() is None
                time.sleep(0.05)
            assert region.stat().st_size > 0
            os.kill(output.server.pid if whose == "server" else loading.pid, signal.SIGKILL)
            if whose == "server":
                time.sleep(0.5)
                loading.kill()
            loading.wait(30)
    finally:
        records.end_run(servers_dir(ctx.data_dir), "killed")
    assert not region.exists()
