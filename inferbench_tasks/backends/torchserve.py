"""``torchserve``: PyTorch's TorchServe, the real one, as a process.

Its Java front end is started directly, since the launcher of its package keeps one pid file for the whole machine. Our
handler speaks KServe v2 with binary tensors, so that the load is the same as for every other server. It runs with
the PyTorch of this environment: a comparison is one of servers.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import secrets
import shutil
import struct
import sysconfig
import tempfile
import time
import zipfile
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from inferbench_tasks.backends.base import Backend, Deployment, Prepared, thread_env
from inferbench_tasks.backends.environments import LOCKS, Environment, python, site_packages
from inferbench_tasks.backends.ports import free_ports
from inferbench_tasks.backends.probes.base import Probe
from inferbench_tasks.contracts.handles import Endpoint, TensorSpec
from inferbench_tasks.errors import InputError, ServerError
from inferbench_tasks.extras import installable, require
from inferbench_tasks.launchers.base import Launch
from inferbench_tasks.protocols.bounded_http import BoundedConnection
from inferbench_tasks.protocols.datatypes import datatype_of
from inferbench_tasks.sandbox import Reach
from inferbench_tasks.strangers_folder import end_of, read

TORCHSERVE = "0.12.0"
MAX_BYTES = 256 * 2**20
#: Of an answer of the management API.
_MAX_STATE_BYTES = 1 << 20
#: A predict of a worker that hangs is given up after this, by TorchServe itself.
RESPONSE_TIMEOUT_S = 60
#: It logs every question; this is also the resolution of its model load.
ASK_EVERY_S = 0.05
#: The socket of its management API, in its folder.
MANAGEMENT = "manage.sock"
#: The class that says what its gRPC ports serve, what it names for the management, and what it shall name instead.
_SERVICES = "org/pytorch/serve/grpcimpl/GRPCServiceFactory.class"
_MANAGES = "org/pytorch/serve/grpcimpl/ManagementImpl"
_INFERS = "org/pytorch/serve/grpcimpl/InferenceImpl"
#: Of its workers' log so much is looked at.
_LOG_BYTES = 1 << 20
#: What its log says of a worker that could not load its model.
DIED = "Backend worker process died."


def environment() -> Environment:
    """TorchServe and the old setuptools that it needs; PyTorch comes from ours, by a ``.pth`` file."""
    packages = (
        f"torchserve=={TORCHSERVE}",
        "setuptools==80.9.0",
        "pyyaml",
        "psutil",
        "requests",
        "packaging",
    )
    return Environment(
        "torchserve",
        requirements=packages[1:],
        bare=packages[:1],
        megabytes=70,
        lock=LOCKS / "torchserve.txt",
    )


def java() -> str | None:
    """The Java that runs the front end; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    program = Path(home) / "bin" / "java" if home else None
    return str(program) if program and program.is_file() else shutil.which("java")


class TorchServe(Backend):
    """One Java front end, ``instances`` Python workers."""

    kind = "torchserve"
    package = "torchserve"
    formats = ("torchscript",)
    protocols = ("http",)

    _management = Path()
    _folder = Path()
    _instances = 1
    _asked_s = 0.0

    @classmethod
    def unavailable(cls, launcher: str, device: str = "cpu") -> str | None:
        """Java is the user's to install; the rest is installed on first use."""
        if java() is None:
            return "TorchServe needs Java 17: apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
        try:
            version("torch")
        except PackageNotFoundError:
            if not installable():
                return "the optional part torch is missing: pip install 'inferbench[torch]'"
        return None

    def environment(self) -> Environment:
        return environment()

    def version(self) -> str:
        """TorchServe's version, as its environment pins it."""
        return TORCHSERVE

    def label(self) -> str:
        """The server and its runtime with their versions, for people."""
        return f"TorchServe {TORCHSERVE}, TorchScript by PyTorch {version('torch')}"

    def prepare(self, deployment: Deployment) -> Prepared:
        """The model archive, ``config.properties``, and a short path for the workers' sockets."""
        require("torch")
        spec, name = deployment.spec, deployment.model_name
        batch_size, delay_ms = _batching(deployment)
        home = environment().ensure(deployment.cache_dir)
        (site_packages(home) / "inferbench-torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
        folder = deployment.folder / "torchserve"
        for part in ("store", "tmp", "logs"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        for stale in (*folder.glob("counters-*"), *folder.glob("logs/*"), *folder.glob("tmp/*.sock")):
            stale.unlink(missing_ok=True)
        write_archive(deployment, folder)
        inference, grpc, grpc_management, worker = free_ports(4, deployment.host)
        inference = deployment.port or inference
        # A socket's path may have no more than 107 characters; a link is also what is easily found again.
        short = Path(tempfile.gettempdir()) / f"ib-ts-{secrets.token_hex(4)}"
        short.symlink_to(folder / "tmp", target_is_directory=True)
        served = {
            "defaultVersion": True,
            "marName": f"{name}.mar",
            "minWorkers": spec.instances,
            "maxWorkers": spec.instances,
            "batchSize": batch_size,
            "maxBatchDelay": delay_ms,
            "responseTimeout": RESPONSE_TIMEOUT_S,
        }
        options: dict[str, Any] = {
            "inference_address": f"http://{deployment.host}:{inference}",
            # Who may end or add workers is who may enter the folder: a port is any user's of the machine.
            "management_address": f"unix:{short / MANAGEMENT}",
            "metrics_address": f"unix:{short / 'metrics.sock'}",
            "grpc_inference_port": grpc,
            "grpc_management_port": grpc_management,
            "initial_worker_port": worker,
            "model_store": folder / "store",
            "load_models": f"{name}.mar",
            "models": json.dumps({name: {"1.0": served}}),
            "disable_token_authorization": "true",  # it would ask for the token with each request of the load
            "enable_model_api": "false",
            "disable_system_metrics": "true",
            "install_py_dep_per_model": "false",
            "default_response_timeout": RESPONSE_TIMEOUT_S,
            "job_queue_size": 8192,
            "max_request_size": MAX_BYTES,
            "max_response_size": MAX_BYTES,
        }
        config_path = folder / "config.properties"
        config_path.write_text("".join(f"{key}={value}\n" for key, value in options.items()))
        self._management, self._folder, self._instances = short / MANAGEMENT, folder, spec.instances
        site = site_packages(home)
        argv = [str(java()), "-XX:-UsePerfData", f"-Dmodel_server_home={site}", f"-Djava.io.tmpdir={short}"]
        unmanaged = write_unmanaged(site / "ts" / "frontend" / "model-server.jar", folder / "unmanaged")
        argv += [
            "-cp",
            f"{unmanaged}:{site}/ts/frontend/*",
            "org.pytorch.serve.ModelServer",
            "--python",
            str(python(home)),
        ]
        argv += ["-f", str(config_path), "-s", str(folder / "store"), "-ncs"]
        env = {
            **thread_env(spec.threads),
            "TS_OPEN_INFERENCE_PROTOCOL": "oip",
            "LOG_LOCATION": str(folder / "logs"),
            "METRICS_LOCATION": str(folder / "logs"),
            "PATH": f"{home / 'bin'}:{os.environ.get('PATH', os.defpath)}",
            "PYTHONPATH": "",
            "TMPDIR": str(short),
        }
        launch = Launch(
            run_id=deployment.run_id,
            folder=deployment.folder,
            config_path=config_path,
            argv=tuple(argv),
            env=env,
            cwd=folder,
            port_in_use="ddress already in use",
            leftovers=(str(short),),
            # The front end asks its workers, and we its management, over Unix sockets.
            reach=Reach(reads=(str(home),), binds=(inference, grpc, grpc_management), local_sockets=True),
        )
        endpoint = Endpoint(protocol="http", host=deployment.host, port=inference, model_name=name)
        about = {"threads": spec.threads, "model": served, "options": {k: str(v) for k, v in options.items()}}
        return Prepared(launch, lambda: endpoint, {**about, "env": {key: env[key] for key in thread_env(1)}})

    def ready(self, probe: Probe) -> bool:
        """By the management API: all workers. A worker that can't load its model is started again for ever."""
        if time.monotonic() < self._asked_s + ASK_EVERY_S:
            return False
        self._asked_s = time.monotonic()
        log = self._folder / "logs" / "model_log.log"
        if log.is_file() and DIED in (text := end_of(log, _LOG_BYTES, within=self._folder)):
            raise ServerError(f"TorchServe's worker died: {text.partition(DIED)[2][:1500].strip()}")
        return self._ready_workers() >= self._instances

    def _ready_workers(self) -> int:
        connection = BoundedConnection("localhost", 80, 5.0, unix_path=str(self._management))
        try:
            listed = json.loads(connection.ask("GET", "/models", max_bytes=_MAX_STATE_BYTES)[2]).get(
                "models", []
            )
            if not listed:
                return 0
            path = f"/models/{listed[0]['modelName']}"
            models = json.loads(connection.ask("GET", path, max_bytes=_MAX_STATE_BYTES)[2])
        except (OSError, http.client.HTTPException, ValueError):
            return 0  # the management socket opens a moment after the port
        finally:
            connection.close()
        return sum(worker["status"] == "READY" for worker in models[0]["workers"])

    def statistics(self, probe: Probe) -> dict[str, Any] | None:
        """Runs and rows, as the handler counts them."""
        counters = [struct.unpack("<qq", read(path, 16)) for path in self._folder.glob("counters-*")]
        return {
            "execution_count": sum(runs for runs, _ in counters),
            "inference_count": sum(rows for _, rows in counters),
        }


def _batching(deployment: Deployment) -> tuple[int, int]:
    """TorchServe's batch counts requests, however many rows each has; its delay has whole milliseconds."""
    batching = deployment.spec.batching
    if batching is None:
        return 1, 0
    if batching.preferred_batch_sizes:
        raise InputError("TorchServe has none; leave them out", field="serve.batching.preferred_batch_sizes")
    return batching.max_batch_size, math.ceil(batching.max_delay_ms)


def write_unmanaged(jar: Path, folder: Path) -> Path:
    """A folder for the class path, before TorchServe's own: with it both gRPC ports serve inference, and none manages.

    It opens a port for its management whatever it is told, on which any user of the machine could take its workers
    away; its token would be asked of each request of the load too. ServerError for another TorchServe.
    """
    with zipfile.ZipFile(jar) as archive:
        code = archive.read(_SERVICES)
    if code.count(_constant(_MANAGES)) != 1 or code.count(_constant(_INFERS)) != 1:
        raise ServerError(f"{jar} is not of TorchServe {TORCHSERVE}: its gRPC management can't be left out")
    path = folder / _SERVICES
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(code.replace(_constant(_MANAGES), _constant(_INFERS)))
    return folder


def _constant(text: str) -> bytes:
    """A text among a class's constants: tag 1, its length, itself (JVM specification, 4.4.7)."""
    return struct.pack(">BH", 1, len(text)) + text.encode()


def write_archive(deployment: Deployment, folder: Path) -> None:
    """``<name>.mar``: the model, our handler and what the handler needs to know."""
    model = deployment.model
    document = {
        "name": deployment.model_name,
        "folder": str(folder),
        "threads": deployment.spec.threads,
        "inputs": [_tensor(spec) for spec in model.inputs],
        "outputs": [_tensor(spec) for spec in model.outputs],
    }
    model_entry = {"modelName": deployment.model_name, "serializedFile": "model.pt", "handler": "handler.py"}
    manifest = {
        "runtime": "python",
        "model": {**model_entry, "modelVersion": "1.0"},
        "archiverVersion": TORCHSERVE,
    }
    handler = resources.files("inferbench_tasks.backends.torchserve_models") / "handler.py"
    with zipfile.ZipFile(folder / "store" / f"{deployment.model_name}.mar", "w") as archive:
        archive.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
        archive.writestr("handler.py", handler.read_text())
        archive.writestr("inferbench.json", json.dumps(document))
        archive.write(model.path, "model.pt")


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": datatype_of(spec.dtype), "shape": [-1, *spec.shape]}
