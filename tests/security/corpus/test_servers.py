"""Code that runs in a server, as that of a model that took it over would: what it can reach of the machine.

The server is the real one, prepared by its backend and started by its launcher; only the code that loads the model
tries things before it goes on.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.backends import startup
from inferbench_tasks.backends.base import Backend, Deployment, Prepared
from inferbench_tasks.backends.mlserver import MODULE, MLServer
from inferbench_tasks.backends.onnxruntime import OnnxRuntime
from inferbench_tasks.backends.own_server import OwnServer
from inferbench_tasks.backends.tfs_protocol import TfsProtocol
from inferbench_tasks.backends.torchscript import TorchScript
from inferbench_tasks.backends.triton import Triton
from inferbench_tasks.launchers import records
from inferbench_tasks.launchers.process import ProcessLauncher
from inferbench_tasks.sandbox.setting import missing
from inferbench_tasks.submission.schema import ServeSpec
from tests.docker_engine import ENVIRONMENTS
from tests.security.bounds import Limits
from tests.serving_cases import dense_as

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(missing()), reason="this kernel lacks a part of the sandbox"),
]


@pytest.fixture
def limits() -> Limits:
    """Each test makes a model and starts a whole server: what the code in it leaves is looked at by the test itself."""
    return Limits(cpu_s=120, mib=3000, traces=False)


ATTEMPTS = """
import ctypes, os, signal, socket, subprocess, sys
from pathlib import Path
ROOT, OWN, PID, PORT = Path({root!r}), Path({own!r}), {pid}, {port}
results = []
def attempt(name, act):
    try:
        act()
        results.append(name + " DONE")
    except OSError as error:
        results.append(name + " " + type(error).__name__)
def call(*arguments):
    if ctypes.CDLL(None, use_errno=True).syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
def command(*argv):
    if subprocess.run(argv, capture_output=True).returncode:
        raise PermissionError
attempt("read-other-run", (ROOT / "runs" / "other" / "requests").read_text)
attempt("read-database-key", (ROOT / "perfdb" / "key").read_text)
attempt("read-logins", (ROOT / "system" / "passwords").read_text)
attempt("list-runs", lambda: os.listdir(ROOT / "runs"))
attempt("list-home", lambda: os.listdir({home!r}))
attempt("read-shadow", lambda: open("/etc/shadow").read())
attempt("read-parent", lambda: open(f"/proc/{{PID}}/environ").read())
attempt("read-by-program", lambda: command("cat", str(ROOT / "perfdb" / "key")))
attempt("write-other-run", lambda: (ROOT / "runs" / "other" / "requests").write_text("x"))
attempt("write-model", lambda: (Path({model!r}) / "canary").write_text("x"))
attempt("write-tmp", lambda: (Path("/tmp") / f"inferbench-canary-{{PID}}").write_text("x"))
attempt("write-environment", lambda: (Path(sys.prefix) / "inferbench-canary").write_text("x"))
attempt("write-by-program", lambda: command("touch", str(ROOT / "touched")))
attempt("connect", lambda: socket.create_connection(("127.0.0.1", PORT), 5))
attempt("listen", lambda: socket.create_server(("127.0.0.1", 0)))
attempt("datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
attempt("local", lambda: socket.socket(socket.AF_UNIX))
attempt("signal", lambda: os.kill(PID, 0))
attempt("trace", lambda: call({ptrace}, 16, PID, None, None))
attempt("namespace", lambda: call({unshare}, 0x10000000))
attempt("own-folder", lambda: (OWN / "own").write_text("x"))
attempt("own-temporary", lambda: __import__("tempfile").TemporaryDirectory().cleanup())
results.append("sees " + str(sorted(os.environ.values())))
(OWN / "attempts").write_text("\\n".join(results))
"""
ALLOWED = ("own-folder DONE", "own-temporary DONE")
NUMBERS = {"x86_64": (101, 272), "aarch64": (117, 97)}


@dataclass
class Ground:
    """A data directory with others' files, and a port that is another's."""

    root: Path
    port: int

    def attempts(self, own: Path, model: Path) -> str:
        """The code that tries."""
        ptrace, unshare = NUMBERS[os.uname().machine]
        return ATTEMPTS.format(
            root=str(self.root), own=str(own), pid=os.getpid(), port=self.port, home=str(Path.home()),
            model=str(model), ptrace=ptrace, unshare=unshare,
        )  # fmt: skip


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    """Secrets in files and variables, and a listener as PerfDB would be."""
    for name in ("runs/other/requests", "perfdb/key", "system/passwords"):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True)
        path.write_text("kept")
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "canary-jwt")
    monkeypatch.setenv("INFERBENCH_PERFDB_URI", "mongodb://127.0.0.1:9/canary-uri")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Ground(tmp_path / "data", listener.getsockname()[1])


def hostile(backend: type[Backend], ground: Ground) -> Backend:
    """The backend, whose server runs the attempts where it loads its model."""

    class Hostile(backend):  # type: ignore[valid-type, misc]
        def prepare(self, deployment: Deployment) -> Prepared:
            """Put the attempts in front of the code that runs in the server."""
            prepared: Prepared = super().prepare(deployment)
            model = Path(deployment.model.path)
            code = ground.attempts(deployment.folder, model if model.is_dir() else model.parent)
            if isinstance(self, OwnServer):
                body = "".join(f"    {line}\n" for line in code.splitlines())
                main = "import sys\nfrom inferbench_tasks.servers import main, model\nload = model.ServedModel.load\n"
                main += f"def loading(self):\n{body}    return load(self)\nmodel.ServedModel.load = loading\n"
                argv = (
                    prepared.launch.argv[0],
                    "-c",
                    f"{main}sys.exit(main.main())",
                    *prepared.launch.argv[3:],
                )
                return replace(prepared, launch=replace(prepared.launch, argv=argv))
            pattern = f"{MODULE}.py" if isinstance(self, MLServer) else "model.py"
            (runtime,) = deployment.folder.rglob(pattern)
            runtime.write_text(runtime.read_text() + code)
            return prepared

    return Hostile()


CASES: list[Any] = [
    pytest.param(OnnxRuntime, "onnx", "http", id="onnxruntime"),
    pytest.param(TorchScript, "torchscript", "grpc", id="torchscript"),
    pytest.param(TfsProtocol, "savedmodel", "grpc", id="tfs_protocol"),
    pytest.param(Triton, "onnx", "grpc", id="triton"),
    pytest.param(MLServer, "onnx", "grpc", id="mlserver"),
]


@pytest.mark.parametrize(("backend", "format_", "protocol"), CASES)
def test_code_in_a_server_reaches_its_run_alone(
    backend: type[Backend], format_: str, protocol: str, ground: Ground, tmp_path: Path
) -> None:
    """It reads and writes nothing of others, connects nowhere, binds no other port, traces and signals nobody, and the
    server serves nonetheless.
    """
    if reason := backend.unavailable("process"):
        pytest.skip(reason)
    if backend is MLServer and not os.environ.get("INFERBENCH_TEST_OPTIONAL"):
        pytest.skip("its environment takes minutes to install; INFERBENCH_TEST_OPTIONAL=1 runs it")
    case = dense_as(format_, tmp_path / "model", False)
    folder = ground.root / "runs" / "own" / "server"
    folder.mkdir(parents=True)
    ENVIRONMENTS.mkdir(exist_ok=True)
    spec = ServeSpec.model_validate({"backend": backend.kind})
    deployment = Deployment(
        f"hostile-{os.getpid()}", case.model, spec, folder, ENVIRONMENTS, protocol=protocol
    )
    servers_dir = tmp_path / "servers"
    try:
        started = startup.start(hostile(backend, ground), deployment, ProcessLauncher(), servers_dir)
        answer = started.probe.infer({"x": case.samples["x"][:1]})
        started.probe.close()
    finally:
        records.end_run(servers_dir, deployment.run_id)
    assert answer["scores"].shape == case.reference["scores"][:1].shape
    assert "Landlock" in started.server.sandbox and "seccomp" in started.server.sandbox
    lines = (folder / "attempts").read_text().splitlines()
    assert [name for name in ALLOWED if name not in lines] == []
    assert [line for line in lines if line.endswith(" DONE") and line not in ALLOWED] == []
    assert sum(line.endswith(" PermissionError") for line in lines) == 20
    assert "canary" not in lines[-1]
    assert (ground.root / "perfdb" / "key").read_text() == "kept"
