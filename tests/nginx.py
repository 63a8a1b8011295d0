"""A real nginx as a server under load: canned answers by Lua over HTTP/1.1, or in front of another server."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inferbench_tasks.loadgen.null_server import answer_message
from tests.load_servers import free_port

_MODULES = Path("/usr/lib/nginx/modules")

_CONFIG = """
{modules}
worker_processes 1; daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log warn;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests {keepalive_requests}; client_max_body_size 0; client_body_buffer_size 2m;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  {upstream}
  server {{ listen 127.0.0.1:{port} {http2}; {body} }}
}}
"""
_CANNED = """
    location ~ ^/v2/models/[^/]+/infer$ {{ content_by_lua_block {{
      ngx.req.read_body()
      ngx.header["Content-Type"] = "application/octet-stream"
      ngx.header["Inference-Header-Content-Length"] = "{head}"
      ngx.header["Content-Length"] = "{size}"
      ngx.print(ngx.decode_base64("{answer}"))
    }} }}
    location ~ ^/v2/models/[^/]+$ {{ default_type application/json; return 200 '{metadata}'; }}
"""


def missing(lua: bool = True) -> str | None:
    """Why there is no nginx here, with the remedy; None if there is."""
    if shutil.which("nginx") is None and not Path("/usr/sbin/nginx").exists():
        return "nginx is not installed (Debian: apt-get install nginx libnginx-mod-http-lua)"
    if lua and not (_MODULES / "ngx_http_lua_module.so").exists():
        return "nginx's Lua module is not installed (Debian: apt-get install libnginx-mod-http-lua)"
    return None


def _metadata(inputs: int, outputs: int) -> str:
    def tensor(name: str, size: int) -> list[dict[str, object]]:
        return [{"name": name, "datatype": "FP32", "shape": [-1, size]}]

    return json.dumps(
        {"name": "null", "inputs": tensor("input", inputs), "outputs": tensor("output", outputs)}
    )


@contextmanager
def nginx(
    folder: Path,
    *,
    canned_bytes: int | None = None,
    inputs: int = 4,
    in_front_of: int | None = None,
    grpc: bool = False,
    keepalive_requests: int = 1000,
) -> Iterator[int]:
    """Gives the port. ``canned_bytes``: HTTP answers with one output of that size; else a proxy."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    modules, upstream = "", ""
    if canned_bytes is not None:
        raw = answer_message("http", canned_bytes)
        head, _, content = raw.partition(b"\r\n\r\n")
        length = next(
            line for line in head.decode().lower().split("\r\n") if line.startswith("inference-header")
        )
        body = _CANNED.format(
            head=length.split(": ")[1],
            size=len(content),
            answer=base64.b64encode(content).decode(),
            metadata=_metadata(inputs, canned_bytes // 4),
        )
        modules = "".join(
            f"load_module {_MODULES / name};\n" for name in ("ndk_http_module.so", "ngx_http_lua_module.so")
        )
    else:
        upstream = f"upstream behind {{ server 127.0.0.1:{in_front_of}; keepalive 64; }}"
        passing = (
            "grpc_pass grpc://behind;"
            if grpc
            else 'proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection "";'
        )
        body = f"location / {{ {passing} }}"
    text = _CONFIG.format(
        modules=modules,
        folder=folder,
        port=port,
        http2="http2" if grpc else "",
        upstream=upstream,
        body=body,
        keepalive_requests=keepalive_requests,
    )
    config = folder / "nginx.conf"
    config.write_text(text)
    binary = shutil.which("nginx") or "/usr/sbin/nginx"
    with open(folder / "output.log", "wb") as log:
        process = subprocess.Popen(
            [binary, "-p", str(folder), "-c", str(config)], stdout=log, stderr=log, env={**os.environ}
        )
    try:
        deadline = time.monotonic() + 20
        while True:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError((folder / "output.log").read_text() + (folder / "error.log").read_text())
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.wait(20)
