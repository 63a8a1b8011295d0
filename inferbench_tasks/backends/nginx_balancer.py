"""nginx before several servers: its configuration, its start, and that it hands on.

Nothing that it could do for users hides a server's failure here: a request goes to one server, once, whatever becomes
of it, and no server is left out for what it did before.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from inferbench_tasks.backends.ports import free_ports
from inferbench_tasks.backends.probes.base import open_probe
from inferbench_tasks.contracts.handles import Endpoint, ServerHandle
from inferbench_tasks.errors import CancelledError, InputError, ServerError
from inferbench_tasks.launchers import records
from inferbench_tasks.launchers.base import Launch, Launcher
from inferbench_tasks.sandbox import Reach
from inferbench_tasks.submission.balancer import BalancerSpec

#: How long it may take until an answer comes through it, and how often it is asked.
READY_S, POLL_S = 20.0, 0.01
#: Starts before giving up on free ports.
PORT_ATTEMPTS = 4
REMEDY = "install it on the host of the devices (Debian, Ubuntu: apt-get install nginx)"
#: Where distributions put it that is on no user's path.
_USUAL = ("/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/local/nginx/sbin/nginx")
#: From this version on it has all the directives below, and says where it writes from its first word.
_LEAST = (1, 19, 10)
#: From this version on HTTP/2 is a directive of its own.
_HTTP2_APART = (1, 25, 1)
#: More files than connections need: each request has one of both sides.
_FILES = 65_536

_CONFIG = """\
# Made by InferBench; what is relative lies below the folder that it is started in (-p).
worker_processes {workers};
worker_rlimit_nofile {files};
daemon off;
pid nginx.pid;
error_log stderr warn;
events {{ worker_connections {connections}; }}
http {{
    access_log off;
    server_tokens off;
    # Bodies are in memory, in both directions.
    client_max_body_size 0;
    client_body_buffer_size {body};
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    # Headers as they are sent.
    underscores_in_headers on;
    ignore_invalid_headers off;
    # Connections stay: what is measured is no handshake.
    keepalive_requests 1000000000;
    keepalive_time 168h;
    keepalive_timeout 3600s;
    upstream replicas {{
        zone replicas 512k;  # all processes share one count
{policy}{servers}
        keepalive 1024;
        keepalive_requests 1000000000;
        keepalive_time 168h;
        keepalive_timeout 1800s;  # before the servers end them
    }}
    server {{
        listen 127.0.0.1:{port}{http2_of_listen};{http2}
        location / {{
{passing}
        }}
    }}
}}
"""
_PASSING = {
    "http": """\
            proxy_pass http://replicas;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_next_upstream off;
            proxy_buffer_size 32k;
            proxy_buffers 64 32k;
            proxy_busy_buffers_size 64k;
            proxy_max_temp_file_size 0;
            proxy_read_timeout 3600s;
            proxy_send_timeout 3600s;""",
    "grpc": """\
            grpc_pass grpc://replicas;
            grpc_next_upstream off;
            grpc_buffer_size 64k;
            grpc_read_timeout 3600s;
            grpc_send_timeout 3600s;""",
}
#: The largest body that is kept in memory: over HTTP/1.1, where each says its length, no more than that is taken for
#: it; over HTTP/2, where bodies pass as they come, so much is taken for each request, and is its window.
_BODY = {"http": "64m", "grpc": "1m"}
#: Of gRPC, whose connections carry many requests at once.
_STREAMS = " http2_max_concurrent_streams 10000;"


@dataclass(frozen=True)
class Nginx:
    """The program that was found. ``version``: its numbers."""

    path: str
    version: tuple[int, ...]
    http2: bool

    @property
    def named(self) -> str:
        """``1.22.1``."""
        return ".".join(map(str, self.version))


def find() -> Nginx:
    """InputError, which says what to install, where there is none."""
    path = shutil.which("nginx") or next((usual for usual in _USUAL if Path(usual).exists()), None)
    if path is None:
        raise InputError(
            f"nginx is the balancer before several devices, and is not here: {REMEDY}", field="serve.devices"
        )
    try:
        told = subprocess.run([path, "-V"], capture_output=True, text=True, timeout=20, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(
            f"{path} does not tell its version ({error}): {REMEDY}", field="serve.devices"
        ) from error
    if (match := re.search(r"nginx/(\d+)\.(\d+)\.(\d+)", told)) is None:
        raise InputError(f"{path} is no nginx by what it tells of itself: {REMEDY}", field="serve.devices")
    found = Nginx(path, tuple(map(int, match.groups())), "--with-http_v2_module" in told)
    if found.version < _LEAST:
        least = ".".join(map(str, _LEAST))
        raise InputError(f"{path} is nginx {found.named}; {least} or later is needed", field="serve.devices")
    return found


def unavailable(protocol: str) -> str | None:
    """Why it can't stand before servers of that protocol here, with the remedy; None if it can."""
    try:
        found = find()
    except InputError as error:
        return str(error)
    if protocol == "grpc" and not found.http2:
        return f"{found.path} was built without HTTP/2, which gRPC needs; use load.protocol: http, or another nginx"
    return None


def config(found: Nginx, spec: BalancerSpec, port: int, behind: Sequence[Endpoint], workers: int) -> str:
    """Its configuration before these servers, which are of one protocol."""
    grpc = behind[0].protocol == "grpc"
    protocol = "grpc" if grpc else "http"
    apart = found.version >= _HTTP2_APART
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    return _CONFIG.format(
        workers=workers,
        files=files,
        connections=files // 2,
        policy="        least_conn;\n" if spec.policy == "least_conn" else "",
        servers="\n".join(f"        server {each.url} max_fails=0;" for each in behind),
        port=port,
        http2_of_listen=" http2" if grpc and not apart else "",
        http2=(" http2 on;" if apart else "") + _STREAMS if grpc else "",
        passing=_PASSING[protocol],
        body=_BODY[protocol],
    )


def start(
    run_id: str,
    spec: BalancerSpec,
    folder: Path,
    behind: Sequence[Endpoint],
    *,
    workers: int,
    cores: tuple[int, ...],
    launcher: Launcher,
    servers_dir: Path,
    cancelled: Callable[[], bool] = lambda: False,
) -> tuple[ServerHandle, Endpoint, str]:
    """Its handle, where it is asked, and its version; ServerError with the end of its log where no answer comes."""
    found = find()
    folder.mkdir(exist_ok=True)
    config_path = folder / "nginx.conf"
    for attempt in range(1, PORT_ATTEMPTS + 1):
        [port] = free_ports(1)
        config_path.write_text(config(found, spec, port, behind, workers))
        launch = Launch(
            run_id=run_id,
            folder=folder,
            config_path=config_path,
            argv=(found.path, "-e", "stderr", "-p", str(folder), "-c", str(config_path)),
            reach=Reach(
                reads=(str(config_path),), binds=(port,), connects=tuple(each.port for each in behind)
            ),
            cores=cores,
        )
        server = launcher.start(launch, servers_dir)
        endpoint = behind[0].model_copy(update={"port": port})
        try:
            _wait(endpoint, launcher, server, cancelled)
            return server, endpoint, found.named
        except ServerError:
            if attempt == PORT_ATTEMPTS or "Address already in use" not in launcher.log_end(
                server, lines=200
            ):
                raise
            records.end_server(servers_dir, server)
    raise AssertionError("the last attempt returns or raises")


def _wait(
    endpoint: Endpoint, launcher: Launcher, server: ServerHandle, cancelled: Callable[[], bool]
) -> None:
    deadline_s = time.monotonic() + READY_S
    probe = open_probe(endpoint, timeout_s=5.0)
    try:
        while not probe.ready():
            if cancelled():
                raise CancelledError("The run was cancelled while its balancer was starting.")
            if not launcher.alive(server):
                raise ServerError(
                    f"The balancer {launcher.exit_text(server)} while starting; the end of {server.log_path}:\n"
                    f"{launcher.log_end(server)}"
                )
            if time.monotonic() > deadline_s:
                raise ServerError(
                    f"Through the balancer no server was ready within {READY_S:g} s; the end of {server.log_path}:\n"
                    f"{launcher.log_end(server)}"
                )
            time.sleep(POLL_S)
    finally:
        probe.close()
