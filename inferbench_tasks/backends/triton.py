"""``triton``: NVIDIA's Triton Inference Server, the real binary, with its python backend.

The binary comes in the package nvidia-pytriton and is run directly, without PyTriton's own layer. Its
python backend runs ONNX Runtime in an environment of Triton's own: there is no native ONNX Runtime
backend in that package, and the label says so. With numpy 2 the stub answers with zero bytes, hence
numpy 1.26 there and the check of every first answer.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from inferbench_tasks.backends.base import Backend, Deployment, Prepared, thread_env
from inferbench_tasks.backends.environments import Environment, site_packages
from inferbench_tasks.backends.own_server import mount
from inferbench_tasks.backends.ports import free_ports
from inferbench_tasks.backends.probes.base import open_probe
from inferbench_tasks.backends.triton_config import pbtxt, tensor
from inferbench_tasks.backends.triton_environment import LIBPYTHON, NUMPY, environment, libpython_folder
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.launchers.base import LOOPBACK, Launch
from inferbench_tasks.protocols.shared_memory import new_key, path_of
from inferbench_tasks.sandbox import Reach
from inferbench_tasks.sandbox.reach import SHARED_MEMORY
from inferbench_tasks.submission.schema import ServeSpec

log = logging.getLogger(__name__)

#: What that package's binary says of itself.
TRITON = "2.51.0"
#: What is built from ``docker/triton``, with the same binary.
IMAGE = "inferbench/server:triton"
#: Where the container's image has what the environment has elsewhere; see ``docker/triton``.
IMAGE_HOME = Path("/opt/triton")
#: Triton sets the mode of its stub at each start, which a read-only root refuses: the backend is copied first.
START = "import os, shutil, sys; a = sys.argv; shutil.copytree(a[1], a[2], dirs_exist_ok=True); os.execv(a[3], a[3:])"
COPIED = ("libtriton_python.so", "triton_python_backend_stub")
#: Its log has the time of day to a microsecond.
_LOADING, _LOADED = (
    re.compile(rf'[IWE]\d{{4}} (\d\d):(\d\d):(\d\d\.\d+) [^"\n]*"{words}')
    for words in ("loading: ", "successfully loaded ")
)
#: One request of so many writes down its moments, so many to a file: what is traced must not be slower for it.
TRACED_OF = 5
TRACES_PER_FILE = 10
#: APIs of which a run needs none. By them who reaches its port has Triton read and write shared memory of its user's,
#: and change what it traces and logs. The first is open where a load asks for it (``load.transport``).
SHARED_MEMORY_API = "shared-memory"
CLOSED = (SHARED_MEMORY_API, "trace", "logging")
#: Triton closes an API by a key only, which stands in its command line, where all users of a machine read it. So these
#: are keys that can't be sent: a header of HTTP holds no line end, and gRPC takes 16 KiB of metadata at most.
HTTP_KEY = "closed\n\nclosed"
GRPC_KEY = "closed" * 4096
#: The other APIs. A server that other hosts reach has the run's secret as their key; users of its own machine can read
#: that one, who reach any other server of a run without.
OPEN = ("health", "metadata", "inference", "model-config", "model-repository", "statistics")
#: Triton puts this before the name of a key where it looks for it in gRPC's metadata.
GRPC_PREFIX = "triton-grpc-protocol-"


class Triton(Backend):
    """Triton, asked over HTTP or gRPC by KServe v2."""

    kind = "triton"
    package = "nvidia-pytriton"
    versioned_by_package = False
    formats = ("onnx",)
    protocols = ("http", "grpc")
    launchers = ("process", "container")
    shared_memory = True
    guarded = True
    traced_levels = ("model",)
    sends_spans = "otlp_json"

    @classmethod
    def unavailable(cls, launcher: str, device: str = "cpu") -> str | None:
        """Its binary is for Linux on x86-64, and its python backend loads this Python as a library."""
        machine = os.uname().machine
        if machine != "x86_64":
            return f"the binary of nvidia-pytriton needs x86_64, this is {machine}"
        if launcher == "process" and libpython_folder() is None:
            return (
                f"its python backend needs {LIBPYTHON}, which neither the loader nor this Python "
                f"({sys.base_prefix}) has; install it (Debian, Ubuntu: `apt-get install libpython3.11`), or use a "
                "Python 3.11 that was built with --enable-shared"
            )
        return None

    def environment(self) -> Environment:
        return environment()

    #: The image that the submission names, where one serves: it may be of any release, ours under a digest, too.
    _image: str | None = None
    #: What the server says of itself.
    _told: str | None = None
    _endpoint: Endpoint | None = None

    def version(self) -> str:
        """Triton's version as the server tells it; before a start that which is pinned here, of an image that the
        submission names ``unknown``."""
        return self._told or (TRITON if self._image is None else "unknown")

    def label(self) -> str:
        """Says which of Triton's backends runs the model."""
        triton, runtime = f"Triton {self.version()}", f"ONNX Runtime {version('onnxruntime')}"
        if self._image is not None:
            number = self._told or "(version unknown)"
            triton, runtime = f"Triton {number} of the image {self._image}", "that image's ONNX Runtime"
        return f"{triton}, python backend with {runtime} (not Triton's native ONNX backend)"

    def on_live(self, endpoint: Endpoint, timeout_s: float) -> None:
        """Where it answers; it is asked for its version once its start was timed."""
        self._endpoint = endpoint

    def on_ready(self) -> None:
        """Ask for its version, which of an image nobody else knows; that it tells none is no reason to fail."""
        assert self._endpoint is not None
        probe = open_probe(self._endpoint, timeout_s=5.0)
        try:
            self._told = cast(Any, probe).server_version()  # both of its protocols have it
        except OSError as error:
            log.warning("triton did not tell its version endpoint=%s error=%s", self._endpoint.url, error)
        finally:
            probe.close()

    def image(self, spec: ServeSpec) -> str:
        """The submission's image, or the one that is built from ``docker/triton``."""
        return spec.image or IMAGE

    def prepare(self, deployment: Deployment) -> Prepared:
        """A model repository with one model; nobody can have Triton load another, or unload this."""
        spec, model = deployment.spec, deployment.model
        container = spec.launcher == "container"
        self._image = spec.image if container and spec.image != IMAGE else None
        home = IMAGE_HOME if container else environment().ensure(deployment.cache_dir)
        name = deployment.model_name
        repository = deployment.folder / "repository"
        versioned = repository / name / "1"
        versioned.mkdir(parents=True, exist_ok=True)
        source = resources.files("inferbench_tasks.backends.triton_models") / "onnx_model.py"
        (versioned / "model.py").write_text(source.read_text())
        batching = spec.batching
        rows = batching.max_batch_size if batching else max(1, deployment.client_batch_size)
        config: dict[str, Any] = {
            "name": name,
            "backend": "python",
            "max_batch_size": rows,
            "input": [tensor(spec_) for spec_ in model.inputs],
            "output": [tensor(spec_) for spec_ in model.outputs],
            "instance_group": [{"count": spec.instances, "kind": "KIND_CPU"}],
            "parameters": {
                "model_path": {"string_value": model.path},
                "threads": {"string_value": str(spec.threads)},
            },
        }
        if batching:
            config["dynamic_batching"] = {
                "preferred_batch_size": sorted(batching.preferred_batch_sizes),
                "max_queue_delay_microseconds": round(batching.max_delay_ms * 1000),
            }
        config_path = repository / name / "config.pbtxt"
        config_path.write_text(pbtxt(config))
        ports = free_ports(3, deployment.host)
        if deployment.port:
            ports[0 if deployment.protocol == "http" else 1] = deployment.port
        backends = deployment.folder / "backends" if container else home / "backends"
        start = ("python3", "-c", START, str(home / "backends"), str(backends)) if container else ()
        server = site_packages(home) / "pytriton" / "tritonserver" / "bin" / "tritonserver"
        shared = f"inferbench-{os.urandom(6).hex()}"
        key = new_key() if deployment.shared_memory else None
        closed = [api for api in CLOSED if api != SHARED_MEMORY_API or key is None]
        options = {
            "model-repository": repository,
            "backend-directory": backends,
            "model-control-mode": "none",  # by its API any user of the machine could load a model, which is code
            "http-restricted-api": f"{','.join(closed)}:inferbench={HTTP_KEY}",
            "grpc-restricted-protocol": f"{','.join(closed)}:inferbench={GRPC_KEY}",
            "http-address": deployment.host,
            "grpc-address": deployment.host,
            "http-port": ports[0],
            "grpc-port": ports[1],
            "metrics-port": ports[2],
            "exit-timeout-secs": 3,
        }
        argv = [*start, str(server), *(f"--{key}={value}" for key, value in options.items())]
        argv.append("--disable-auto-complete-config")  # 1 s instead of 2 to 7 until ready
        argv.append(f"--backend-config=python,shm-region-prefix-name={shared}")
        argv += _guard(deployment)
        trace = deployment.folder / "trace" / "trace.json"
        if deployment.trace:
            trace.parent.mkdir(exist_ok=True)
            argv += trace_options(trace)
        if deployment.spans_port is not None:
            argv += span_options(deployment.spans_port)
        libraries = [str(site_packages(home) / "nvidia_pytriton.libs")]
        if not container and (folder := libpython_folder()):
            libraries.append(folder)
        env = {
            **thread_env(spec.threads),
            "PATH": f"{home / 'bin'}:{os.defpath if container else os.environ.get('PATH', os.defpath)}",
            "LD_LIBRARY_PATH": ":".join(libraries),
            "PYTHONPATH": "",
        }
        region = (str(path_of(key)),) if key else ()
        launch = Launch(
            run_id=deployment.run_id,
            folder=deployment.folder,
            config_path=config_path,
            argv=tuple(argv),
            image=self.image(spec),
            mounts=dict([mount(model.path)]),
            env=env,
            port_in_use="already in use",
            # Each start of the python backend makes an empty folder in /tmp, and shares memory with its stub by name.
            reach=Reach(
                reads=(str(home),),
                writes=(SHARED_MEMORY,),
                folders=("/tmp",),  # noqa: S108 - it has no other place
                binds=tuple(ports),
                connects=(deployment.spans_port,) if deployment.spans_port is not None else (),
            ),
            leftovers=(
                *(str(backends / "python" / name) for name in COPIED if container),
                f"/dev/shm/{shared}*",  # noqa: S108 - where Triton's stubs share memory
                *region,
            ),
            makes=region,
        )
        endpoint = Endpoint(
            protocol=cast(Any, deployment.protocol),
            host=deployment.host,
            port=ports[0] if deployment.protocol == "http" else ports[1],
            model_name=name,
            model_version="1",
            rows_of_one=True,
            secret=deployment.secret,
            metadata_key=f"{GRPC_PREFIX}authorization" if deployment.secret else "authorization",
        )
        settings = {
            "threads": spec.threads,
            "instances": spec.instances,
            "max_batch_size": rows,
            "dynamic_batching": config.get("dynamic_batching"),
            # What an image has that the submission names it does not tell.
            "python_backend": None
            if self._image
            else {"onnxruntime": version("onnxruntime"), "numpy": NUMPY},
            "env": {key: env[key] for key in thread_env(1)},
            "trace": {"one_of": TRACED_OF} if deployment.trace else None,
        }
        drawn = {"metrics_port": ports[2], **({"trace": {"file": str(trace)}} if deployment.trace else {})}
        return Prepared(launch, lambda: endpoint, settings, key, drawn)

    def model_load_ms(self, log: str) -> float | None:
        """By the moments of its log: its ports open when the model is there."""
        moments = [_LOADING.findall(log), _LOADED.findall(log)]
        if not all(moments):
            return None
        began_s, ended_s = (60 * (60 * int(h) + int(m)) + float(s) for h, m, s in (m[-1] for m in moments))
        return (ended_s - began_s) % 86400 * 1e3


def _guard(deployment: Deployment) -> list[str]:
    """What has it answer nobody without the secret, where there is one; by the protocol of the load alone, and its
    metrics, which it can't guard, on loopback.
    """
    if not deployment.secret:
        return []
    key = f"{','.join(OPEN)}:authorization=Bearer {deployment.secret}"
    other = "grpc" if deployment.protocol == "http" else "http"
    guards = [f"--http-restricted-api={key}", f"--grpc-restricted-protocol={key}"]
    return [*guards, f"--allow-{other}=false", f"--metrics-address={LOOPBACK}"]


def span_options(port: int) -> list[str]:
    """Its own spans of each request, sent as OpenTelemetry has them; a request's context is carried on."""
    return [
        "--trace-config=mode=opentelemetry",
        f"--trace-config=opentelemetry,url=http://127.0.0.1:{port}/v1/traces",
        "--trace-config=opentelemetry,bsp_schedule_delay=200",
        "--trace-config=rate=1",
        "--trace-config=level=TIMESTAMPS",
    ]


def trace_options(file: Path) -> list[str]:
    """Where a sample of the requests spent their time; see ``metrics.triton_trace``.

    For light loads only. Under full load this server, traced, answers at 59 to 70% of its rate, and crashes
    (signal 6 or 11) or mixes up its requests.
    """
    return [
        f"--trace-config=triton,file={file}",
        f"--trace-config=triton,log-frequency={TRACES_PER_FILE}",
        f"--trace-config=rate={TRACED_OF}",
        "--trace-config=level=TIMESTAMPS",
    ]
