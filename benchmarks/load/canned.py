"""nginx with Lua as a canned gRPC server that keeps the moment at which each request arrived."""

from __future__ import annotations

import base64
import http.client
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.clients.grpc_message import frame
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.loadgen.null_server import answer_message
from inferbench_tasks.protocols.kserve_proto import message
from tests.load_servers import endpoint, free_port

_MODULES = Path("/usr/lib/nginx/modules")
_CONFIG = """
load_module {modules}/ndk_http_module.so;
load_module {modules}/ngx_http_lua_module.so;
worker_processes 1; daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log warn;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_time 24h; client_max_body_size 0;
  client_body_buffer_size 2m; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  init_by_lua_block {{
    local ffi = require "ffi"
    ffi.cdef[[
      struct arrival_time {{ long s; long ns; }};
      int clock_gettime(int clock, struct arrival_time *now);
    ]]
    local now = ffi.new("struct arrival_time")
    local most = 4000000
    local times = ffi.new("int64_t[?]", most)
    local count = 0
    function arrived()
      ffi.C.clock_gettime(1, now)
      times[count % most] = now.s * 1000000000LL + now.ns
      count = count + 1
    end
    function arrivals()
      local text = ffi.string(times, 8 * count)
      count = 0
      return text
    end
    answers = {{ {answers} }}
    -- With the request's id, if it has one: perf_analyzer recognises its answers by it. ModelInferRequest
    -- and ModelInferResponse have the same first fields: 1 model_name, 2 model_version, 3 id.
    function answer(request)
      local at = 6
      for tag = 10, 18, 8 do
        if request:byte(at) == tag then at = at + 2 + request:byte(at + 1) end
      end
      if request:byte(at) ~= 26 then return answers.ModelInfer end
      local message = answers.ModelInfer:sub(6) .. request:sub(at, at + 1 + request:byte(at + 1))
      local size = #message
      return string.char(0, 0, math.floor(size / 65536), math.floor(size / 256) % 256, size % 256) .. message
    end
  }}
  server {{
    listen 127.0.0.1:{port} http2;
    default_type application/grpc; add_trailer grpc-status 0;
    location = /inference.GRPCInferenceService/ModelInfer {{
      rewrite_by_lua_block {{ arrived() }}
      content_by_lua_block {{
        ngx.req.read_body()
        ngx.header["Content-Type"] = "application/grpc"
        ngx.print(answer(ngx.req.get_body_data()))
      }}
    }}
    location ~ ^/inference.GRPCInferenceService/(.*)$ {{
      content_by_lua_block {{
        ngx.header["Content-Type"] = "application/grpc"
        ngx.print(answers[ngx.var[1]])
      }}
    }}
  }}
  server {{ listen 127.0.0.1:{log_port}; location / {{ content_by_lua_block {{ ngx.print(arrivals()) }} }} }}
}}
"""


@dataclass(frozen=True)
class Canned:
    """The server while it runs."""

    where: Endpoint
    log_port: int

    def arrivals_ns(self) -> NDArray[np.int64]:
        """When the requests since the last call arrived, CLOCK_MONOTONIC ns, in order; forgets them."""
        connection = http.client.HTTPConnection("127.0.0.1", self.log_port, timeout=10)
        try:
            connection.request("GET", "/")
            with connection.getresponse() as response:
                return np.sort(np.frombuffer(response.read(), np.int64))
        finally:
            connection.close()


def _answers(inputs: int, answer_bytes: int) -> dict[str, bytes]:
    """What perf_analyzer asks before it begins, and the answer to a request."""
    metadata = message("ModelMetadataResponse")(name="null", versions=["1"], platform="canned")
    metadata.inputs.add(name="input", datatype="FP32", shape=[-1, inputs])
    metadata.outputs.add(name="output", datatype="FP32", shape=[-1, answer_bytes // 4])
    # ModelConfigResponse { config { name: "null"  max_batch_size: 8 } }
    config = b"\x0a\x04null" + b"\x20\x08"
    return {
        "ModelInfer": answer_message("grpc", answer_bytes),
        "ModelMetadata": metadata.SerializeToString(),
        "ModelConfig": b"\x0a" + bytes([len(config)]) + config,
        "ServerMetadata": message("ServerMetadataResponse")(name="canned", version="1").SerializeToString(),
        "ServerLive": b"\x08\x01",
        "ServerReady": b"\x08\x01",
        "ModelReady": b"\x08\x01",
    }


@contextmanager
def canned_grpc(folder: Path, inputs: int, answer_bytes: int = 64) -> Iterator[Canned]:
    """A canned server for one input of ``inputs`` float32 numbers."""
    folder.mkdir(parents=True)
    port, log_port = free_port(), free_port()
    answers = ", ".join(
        f'{name} = ngx.decode_base64("{base64.b64encode(frame(answer)).decode()}")'
        for name, answer in _answers(inputs, answer_bytes).items()
    )
    config = folder / "nginx.conf"
    config.write_text(
        _CONFIG.format(modules=_MODULES, folder=folder, port=port, log_port=log_port, answers=answers)
    )
    binary = shutil.which("nginx") or "/usr/sbin/nginx"
    with open(folder / "output.log", "wb") as log:
        process = subprocess.Popen([binary, "-p", str(folder), "-c", str(config)], stdout=log, stderr=log)
    server = Canned(endpoint("grpc", port), log_port)
    try:
        deadline = time.monotonic() + 20
        while True:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit((folder / "output.log").read_text())
            try:
                server.arrivals_ns()
                break
            except OSError:
                time.sleep(0.05)
        yield server
    finally:
        process.terminate()
        process.wait(20)
