"""From a prepared backend to a server whose model is ready, with the time that each part took."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from inferbench_tasks.backends.base import Backend, Deployment, Prepared
from inferbench_tasks.backends.probes.base import Probe, open_probe
from inferbench_tasks.contracts.handles import Endpoint, ServerHandle
from inferbench_tasks.errors import CancelledError, ServerError
from inferbench_tasks.launchers.base import LOOPBACK, Launcher
from inferbench_tasks.launchers.records import end_server
from inferbench_tasks.sandbox import Watch, limits
from inferbench_tasks.strangers_folder import cleared

log = logging.getLogger(__name__)

#: How often a starting server is asked; also the resolution of the cold start.
POLL_S = 0.005
#: Starts before giving up on servers that can't choose a free port themselves.
PORT_ATTEMPTS = 4


@dataclass(frozen=True)
class Started:
    """A server whose model is ready.

    ``process_ms``: from the start to its first sign of life; ``model_load_ms``: from there to ready.
    """

    backend: Backend
    endpoint: Endpoint
    server: ServerHandle
    prepared: Prepared
    probe: Probe
    started_at_s: float
    process_ms: float
    model_load_ms: float


def start(
    backend: Backend,
    deployment: Deployment,
    launcher: Launcher,
    servers_dir: Path,
    cancelled: Callable[[], bool] = lambda: False,
) -> Started:
    """Start a backend and wait for its model.

    Raises ServerError with the end of the log if it dies, is not ready in ``ready_timeout_s``, or finds
    its port taken; the caller ends what is left (``records.end_run``).
    """
    deployment = replace(deployment, host=deployment.listens or getattr(launcher, "listens_on", LOOPBACK))
    for attempt in range(1, PORT_ATTEMPTS + 1):
        for left in cleared(
            deployment.folder
        ):  # by an earlier server: what is written now would go elsewhere
            log.warning("removed from a server's folder run_id=%s: %s", deployment.run_id, left)
        for stale in deployment.folder.glob("address.json"):
            stale.unlink()
        prepared = backend.prepare(deployment)
        began_s = time.monotonic()
        named = deployment.spec.image is not None
        launch = replace(prepared.launch, image_by_submission=named, cores=deployment.cores)
        server = launcher.start(launch, servers_dir)
        try:
            return _wait(backend, prepared, deployment, launcher, server, began_s, cancelled)
        except ServerError:
            port = prepared.launch.port_in_use
            may_choose = deployment.port == 0 and attempt < PORT_ATTEMPTS
            if port is None or not may_choose or port not in launcher.log_end(server, lines=200):
                raise
            log.warning("a chosen port was taken meanwhile, trying others run_id=%s", deployment.run_id)
            end_server(servers_dir, server)
    raise AssertionError("the last attempt returns or raises")


def _at(server: ServerHandle, endpoint: Endpoint | None) -> Endpoint | None:
    if endpoint is None or not server.address:
        return endpoint
    return endpoint.model_copy(update={"host": server.address})


def _on_live(
    backend: Backend, endpoint: Endpoint | None, left_s: float, launcher: Launcher, server: ServerHandle
) -> None:
    assert endpoint is not None
    try:
        backend.on_live(endpoint, max(left_s, 1.0))
    except ServerError as error:
        raise ServerError(f"{error}\nThe end of {server.log_path}:\n{launcher.log_end(server)}") from error
    except OSError as error:
        state = "its model was not loaded in time" if launcher.alive(server) else launcher.exit_text(server)
        raise ServerError(
            f"The server was started but {state} ({error}); the end of {server.log_path}:\n"
            f"{launcher.log_end(server)}"
        ) from error


def _wait(
    backend: Backend,
    prepared: Prepared,
    deployment: Deployment,
    launcher: Launcher,
    server: ServerHandle,
    began_s: float,
    cancelled: Callable[[], bool],
) -> Started:
    timeout_s = deployment.spec.ready_timeout_s or backend.ready_timeout_s
    deadline_s = began_s + timeout_s
    endpoint: Endpoint | None = None
    probe: Probe | None = None
    live_s: float | None = None
    looked_s = began_s
    watch = Watch(server.pid, server.uid, (deployment.folder,)) if server.pid else None
    try:
        while True:
            if cancelled():
                raise CancelledError("The run was cancelled while its server was starting.")
            if not launcher.alive(server):
                raise ServerError(
                    f"The server {launcher.exit_text(server)} while starting; the end of {server.log_path}:\n"
                    f"{launcher.log_end(server)}"
                )
            if endpoint is None and (endpoint := _at(server, prepared.endpoint())) is not None:
                probe = open_probe(endpoint, timeout_s=5.0)
            asked_s = time.monotonic()
            if asked_s - looked_s > limits.EVERY_S and watch:
                looked_s = asked_s
                if reason := watch.excess():
                    raise ServerError(f"The server {reason} while starting")
            # The answer may wait for a load that has begun: the server was there when it was asked.
            if probe is not None and live_s is None and probe.live():
                live_s = asked_s
                _on_live(backend, endpoint, deadline_s - asked_s, launcher, server)
            if probe is not None and live_s is not None and backend.ready(probe):
                break
            if time.monotonic() > deadline_s:
                state = "its model was not ready" if live_s else "it did not answer"
                raise ServerError(
                    f"The server was started but {state} within serve.ready_timeout_s = "
                    f"{timeout_s:g}; the end of {server.log_path}:\n"
                    f"{launcher.log_end(server)}"
                )
            time.sleep(POLL_S)
    except BaseException:
        if probe is not None:
            probe.close()
        raise
    ready_s = time.monotonic()
    assert endpoint is not None
    probe.close()
    load_ms = backend.model_load_ms(launcher.log_end(server, lines=200))
    if load_ms is None:
        load_ms = (ready_s - live_s) * 1e3
    backend.on_ready()
    log.info("backend ready endpoint=%s waited_s=%.2f", endpoint.url, ready_s - began_s)
    return Started(
        backend,
        endpoint,
        server,
        prepared,
        open_probe(endpoint, timeout_s=max(30.0, timeout_s)),
        began_s,
        (ready_s - began_s) * 1e3 - load_ms,
        load_ms,
    )
