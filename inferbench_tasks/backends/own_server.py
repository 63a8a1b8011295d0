"""What the backends have in common whose server is ours (``inferbench_tasks.servers``)."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from inferbench_tasks.backends import other_runtimes
from inferbench_tasks.backends.base import Backend, Deployment, Prepared, thread_env
from inferbench_tasks.backends.ports import free_ports
from inferbench_tasks.contracts.handles import Endpoint, ModelArtifact, Processing
from inferbench_tasks.contracts.versions import same_version
from inferbench_tasks.errors import ServerError
from inferbench_tasks.extras import installable, require
from inferbench_tasks.launchers.base import Launch
from inferbench_tasks.protocols.shared_memory import new_key, path_of
from inferbench_tasks.sandbox import Reach, bytecode
from inferbench_tasks.servers.config import LACKING, SECRET, Batching, ServerConfig
from inferbench_tasks.strangers_folder import read
from inferbench_tasks.submission.schema import ServeSpec

#: Its address, or the names of the sources that it imported.
_MOST_TOLD_BYTES = 16 << 20


class OwnServer(Backend):
    """Our FastAPI server with one of its engines; HTTP and gRPC, KServe v2."""

    launchers: ClassVar[tuple[str, ...]] = ("process", "container")
    server_processors = True
    fixed_batches = True
    shared_memory = True
    guarded = True
    replicas = True
    tells_spans = True
    traced_levels: ClassVar[tuple[str, ...]] = ("model", "framework")
    protocols: ClassVar[tuple[str, ...]] = ("http", "grpc")
    #: Name in ``servers.engines``; the package that holds the runtime; its name for people.
    engine: ClassVar[str]
    package: ClassVar[str]
    title: ClassVar[str]
    #: The optional part of InferBench that brings the runtime; it is installed on first use.
    extra: ClassVar[str | None] = None
    grpc_service: ClassVar[Literal["kserve", "tfs"]] = "kserve"
    #: Whether the library level is told by samples of the process (``monitors.perf_samples``).
    sampled: ClassVar[bool] = False

    @classmethod
    def unavailable(cls, launcher: str, device: str = "cpu") -> str | None:
        """Whether the runtime is installed, or can be on first use."""
        try:
            version(cls.package)
        except PackageNotFoundError:
            if cls.extra is None:
                return f"the package {cls.package} is not installed"
            if not installable():
                return f"the optional part {cls.extra} is missing: pip install 'inferbench[{cls.extra}]'"
        return None

    _address: Path | None = None
    _model_name = ""
    _wanted: str | None = None

    def version(self) -> str:
        """The runtime's version as the server itself tells it; before a start, that of this environment."""
        if self._address is not None and self._address.exists():
            return str(json.loads(_told(self._address))["runtime_version"])
        return version(self.package)

    def on_ready(self) -> None:
        """Write the bytecode that the server could not, for the next start. ServerError where another version of the
        runtime runs than the one that was asked for.
        """
        if self._wanted is not None and not same_version(self.version(), self._wanted):
            raise ServerError(
                f"{self.title} {self._wanted} was asked for, and the server runs {self.version()}: nothing is measured"
            )
        lacking = self._address.with_name(LACKING) if self._address else None
        if lacking is not None and lacking.is_file():
            bytecode.write(json.loads(_told(lacking)))
            lacking.unlink()

    def label(self) -> str:
        """The runtime and the server with their versions, for people."""
        return f"{self.title} {self.version()} in InferBench's FastAPI server"

    def image(self, spec: ServeSpec) -> str | None:
        """Built from ``docker/server``, one tag per backend."""
        return spec.image or f"inferbench/server:{self.kind}"

    def engine_of(self, model: ModelArtifact) -> str:
        """The engine for a model; a backend of several formats may have several."""
        return self.engine

    def engine_settings(self, deployment: Deployment) -> dict[str, Any]:
        """Further settings that the engine needs; none by default."""
        return {}

    def prepare(self, deployment: Deployment) -> Prepared:
        """One JSON file; the server binds its ports and writes them beside it."""
        spec, model = deployment.spec, deployment.model
        if self.extra is not None and spec.launcher == "process":
            require(self.extra)
        if deployment.protocol == "grpc":
            require("grpc")
        address = deployment.folder / "address.json"
        self._address, self._model_name = address, deployment.model_name
        runtime = deployment.runtime
        self._wanted = runtime.version if runtime else None
        made_in = runtime.environment if runtime else None
        home = made_in.ensure(deployment.cache_dir) if made_in else None
        http_port, grpc_port = _ports(deployment)
        key = new_key() if deployment.shared_memory else None
        region = (str(path_of(key)),) if key else ()
        config = ServerConfig(
            engine=self.engine_of(model),
            runtime_package=self.package,
            model_name=deployment.model_name,
            model_version=str(model.version),
            model_path=model.path,
            inputs=model.inputs,
            outputs=model.outputs,
            batch_size=model.batch_size,
            address_path=str(address),
            host=deployment.host,
            http_port=http_port,
            grpc_port=grpc_port,
            grpc_service=self.grpc_service,
            device=spec.device,
            threads=spec.threads,
            instances=spec.instances,
            batching=Batching(**spec.batching.model_dump()) if spec.batching else None,
            engine_settings=self.engine_settings(deployment),
            processing=deployment.processing,
            tracing=deployment.tracing,
            shared_memory=key,
        )
        env = {**thread_env(spec.threads), "TF_CPP_MIN_LOG_LEVEL": "1"}
        if home is not None:
            env["PYTHONPATH"] = other_runtimes.search_path(home)
        # Neither in the configuration, which is kept, nor in the settings, which are shown.
        guard = {SECRET: deployment.secret} if deployment.secret else {}
        # Our images have InferBench installed for the python on their PATH.
        interpreter = sys.executable if spec.launcher == "process" else "python3"
        config_path = deployment.folder / "config.json"
        config_path.write_text(config.model_dump_json(indent=2))
        launch = Launch(
            run_id=deployment.run_id,
            folder=deployment.folder,
            config_path=config_path,
            argv=(interpreter, "-m", "inferbench_tasks.servers.main", "--config", str(config_path)),
            image=self.image(spec),
            mounts=dict([mount(model.path)]),
            env={**env, **guard},
            port_in_use="can't be bound",
            leftovers=region,
            makes=region,
            counted=deployment.tracing is not None and deployment.tracing.framework,
            sampled=self.sampled
            and spec.device == "cpu"
            and deployment.tracing is not None
            and deployment.tracing.library,
            reach=Reach(
                reads=(*_files(deployment.processing), *region, *([str(home)] if home else [])),
                binds=tuple(port for port in (http_port, grpc_port) if port),
                local_sockets=spec.device != "cpu",
            ),
        )

        def endpoint() -> Endpoint | None:
            port = read_ports(address).get(deployment.protocol)
            if port is None:
                return None
            return Endpoint(
                protocol=cast(Any, self.endpoint_protocol(deployment.protocol)),
                host=deployment.host,
                port=port,
                model_name=config.model_name,
                model_version=config.model_version,
                secret=deployment.secret,
            )

        settings = config.model_dump(
            mode="json", include={"engine", "device", "threads", "instances", "batching", "engine_settings"}
        )
        if deployment.processing is not None:
            steps = deployment.processing.model_dump(mode="json", include={"before", "after"})
            settings["processors"] = {"side": "server", **steps}
        return Prepared(launch, endpoint, {**settings, "env": env}, key)


def _ports(deployment: Deployment) -> tuple[int, int | None]:
    """Of HTTP and of gRPC. A process may bind these only; in a container, 0, the server takes what is free."""
    http_port, grpc_port = (
        (0, 0) if deployment.spec.launcher == "container" else free_ports(2, deployment.host)
    )
    if deployment.protocol == "grpc":
        return http_port, deployment.port or grpc_port
    return deployment.port or http_port, None


def _files(processing: Processing | None) -> tuple[str, ...]:
    """What processors in the server read: the absolute paths of their settings."""
    steps = (*processing.before, *processing.after) if processing else ()
    values = (value for step in steps for value in step.settings.values())
    return tuple(value for value in values if isinstance(value, str) and Path(value).is_absolute())


def mount(model_path: str) -> tuple[str, str]:
    """A model's files where the configuration says they are; a folder, for what lies beside a file."""
    path = Path(model_path)
    folder = str(path if path.is_dir() else path.parent)
    return folder, folder


def read_ports(address: Path) -> dict[str, int]:
    """The ports that our server has bound; empty before."""
    try:
        ports: dict[str, int] = json.loads(_told(address))["ports"]
    except FileNotFoundError:
        return {}
    return ports


def _told(path: Path) -> bytes:
    """What the server wrote down in its folder. ServerError where it put anything but a plain file there."""
    try:
        return read(path, _MOST_TOLD_BYTES, within=path.parent.parent)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ServerError(f"What the server told can't be read: {path}: {error.strerror}") from error
