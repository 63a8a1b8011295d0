"""The process of our server: ``python -m inferbench_tasks.servers.main --config config.json``.

Ports are bound first and told in a file, then the model is loaded while the server already answers
that it is alive. Exit codes: 0 ended by a signal, 1 the model could not be loaded, 2 bad
configuration, 3 a port could not be bound.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from inferbench_tasks.sandbox import bytecode
from inferbench_tasks.servers.config import LACKING, SECRET, ServerConfig
from inferbench_tasks.servers.model import ServedModel

if TYPE_CHECKING:
    import uvicorn

    from inferbench_tasks.servers.grpc_server import GrpcServer
    from inferbench_tasks.servers.http import InferenceApp
    from inferbench_tasks.servers.tfs_server import TfsServer

log = logging.getLogger("inferbench_tasks.servers")

#: Idle connections stay open for longer than any pause of a load.
KEEP_ALIVE_S = 3600
BACKLOG = 4096


def main(make: Callable[[ServerConfig], ServedModel] = ServedModel) -> int:
    """Serve the model of the configuration, as ``make`` makes it, until a signal ends the process."""
    parser = argparse.ArgumentParser(description="Serve one model over KServe v2.")
    parser.add_argument("--config", type=Path, required=True)
    args = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr
    )
    try:
        config = ServerConfig.model_validate_json(args.config.read_bytes())
    except (OSError, ValidationError) as error:
        log.error("configuration %s can't be used: %s", args.config, error)
        return 2
    try:
        listener = bind(config.host, config.http_port)
    except OSError as error:
        log.error("port %s on %s can't be bound: %s", config.http_port, config.host, error.strerror)
        return 3
    import uvloop

    return uvloop.run(serve(config, listener, make))


def bind(host: str, port: int | None) -> socket.socket | None:
    """A listening socket; port 0 lets the kernel choose a free one, None opens nothing."""
    if port is None:
        return None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


async def serve(
    config: ServerConfig,
    listener: socket.socket | None,
    make: Callable[[ServerConfig], ServedModel] = ServedModel,
) -> int:
    """Answer requests until told to stop; 1 if the model could not be loaded."""
    import uvicorn

    from inferbench_tasks.servers.http import InferenceApp

    model = make(config)
    secret = os.environ.pop(SECRET, "")
    app = InferenceApp(model, _version(), secret)

    class Server(uvicorn.Server):
        """uvicorn raises the signal that ended it once more when it is done: what is left to do is done before."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await super().shutdown(sockets)
            if model.recorder is not None:
                model.close()

    server = Server(http_config(app))
    ports: dict[str, int] = {}
    if listener is not None:
        ports["http"] = listener.getsockname()[1]
    grpc_server = None
    if config.grpc_port is not None:
        grpc_server = _grpc_server(model, secret)
        try:
            ports["grpc"] = await grpc_server.start(config.host, config.grpc_port)
        except OSError as error:
            log.error("gRPC port %s on %s can't be bound: %s", config.grpc_port, config.host, error)
            return 3
    _tell(config, ports)
    loading = asyncio.get_running_loop().run_in_executor(None, model.load)
    failed = False

    def loaded(future: asyncio.Future[None]) -> None:
        nonlocal failed
        if error := future.exception():
            failed = True
            log.error("model %s can't be loaded: %s: %s", config.model_path, type(error).__name__, error)
            server.should_exit = True
            return
        if sources := bytecode.lacking():
            # Who started this server may look as soon as the model answers, which it does by now.
            _write(Path(config.address_path).with_name(LACKING), json.dumps(sources))
        # What lives now lives on: it need not be walked by every collection under load.
        gc.collect()
        gc.freeze()

    loading.add_done_callback(loaded)
    await server.serve(sockets=[listener] if listener is not None else [])
    if grpc_server is not None:
        await grpc_server.stop()
    model.close()
    return 1 if failed else 0


def http_config(app: InferenceApp) -> uvicorn.Config:
    """How uvicorn serves it."""
    import uvicorn

    return uvicorn.Config(
        app,
        loop="none",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=2,
        backlog=BACKLOG,
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )


def _grpc_server(model: ServedModel, secret: str) -> GrpcServer | TfsServer:
    if model.config.grpc_service == "tfs":
        from inferbench_tasks.servers.tfs_server import TfsServer

        return TfsServer(model, _version(), secret)
    from inferbench_tasks.servers.grpc_server import GrpcServer

    return GrpcServer(model, _version(), secret)


def _tell(config: ServerConfig, ports: dict[str, int]) -> None:
    """Write the bound ports and what really runs."""
    package = config.runtime_package
    document = {"pid": os.getpid(), "ports": ports, "runtime_version": _version(package) if package else None}
    _write(Path(config.address_path), json.dumps(document))


def _write(path: Path, text: str) -> None:
    """A file that is whole or not there."""
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)


def _version(package: str = "inferbench") -> str:
    from importlib.metadata import version

    return version(package)


if __name__ == "__main__":
    sys.exit(main())
