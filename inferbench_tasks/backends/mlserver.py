"""``mlserver``: Seldon's MLServer with ONNX Runtime as a custom runtime, in an environment of its own.

Over gRPC only: its HTTP endpoint does not know the binary-tensor extension.
"""

from __future__ import annotations

import http.client
import json
import re
from importlib import resources
from importlib.metadata import version
from typing import Any

from inferbench_tasks.backends.base import Backend, Deployment, Prepared, thread_env
from inferbench_tasks.backends.environments import LOCKS, Environment, python
from inferbench_tasks.backends.ports import free_ports
from inferbench_tasks.backends.probes.base import Probe
from inferbench_tasks.contracts.handles import Endpoint, TensorSpec
from inferbench_tasks.extras import require
from inferbench_tasks.launchers.base import Launch
from inferbench_tasks.monitors.prometheus import fetch
from inferbench_tasks.protocols.datatypes import datatype_of
from inferbench_tasks.sandbox import Reach
from inferbench_tasks.sandbox.reach import SHARED_MEMORY

MLSERVER = "1.7.1"
MODULE = "inferbench_onnx_model"
#: What starts it.
STARTER = "inferbench_mlserver"


def environment() -> Environment:
    """With the same ONNX Runtime as ours, so that a comparison is one of servers."""
    return Environment(
        "mlserver",
        (f"mlserver=={MLSERVER}", f"onnxruntime=={version('onnxruntime')}"),
        300,
        lock=LOCKS / "mlserver.txt",
    )


class MLServer(Backend):
    """MLServer with one process, or with ``instances`` worker processes."""

    kind = "mlserver"
    package = "mlserver"
    formats = ("onnx",)
    protocols = ("grpc",)
    traced_levels = ("model",)
    sends_spans = "otlp_grpc"

    _metrics_port = 0

    @classmethod
    def unavailable(cls, launcher: str, device: str = "cpu") -> str | None:
        """Its environment is made on first use."""
        return None

    def environment(self) -> Environment:
        return environment()

    def version(self) -> str:
        """MLServer's version, as its environment pins it."""
        return MLSERVER

    def label(self) -> str:
        """The server and its runtime with their versions, for people."""
        return f"MLServer {MLSERVER} with ONNX Runtime {version('onnxruntime')} as a custom runtime"

    def prepare(self, deployment: Deployment) -> Prepared:
        """MLServer's two JSON files, and the runtime beside them."""
        require("grpc")
        spec, model = deployment.spec, deployment.model
        home = environment().ensure(deployment.cache_dir)
        folder = deployment.folder / "mlserver"
        (folder / "metrics").mkdir(parents=True, exist_ok=True)
        for module in (MODULE, STARTER):
            source = resources.files("inferbench_tasks.backends.mlserver_models") / f"{module}.py"
            (folder / source.name).write_text(source.read_text())
        http_port, grpc_port, self._metrics_port = free_ports(3, deployment.host)
        grpc_port = deployment.port or grpc_port
        settings: dict[str, Any] = {
            "host": deployment.host,
            "http_port": http_port,
            "grpc_port": grpc_port,
            "metrics_port": self._metrics_port,
            "metrics_dir": str(folder / "metrics"),
            "parallel_workers": spec.instances if spec.instances > 1 else 0,
            "debug": False,
        }
        # Where it sends its own spans is drawn for each start, and of no run that is timed: no setting of the run.
        spans_port = deployment.spans_port
        sent = {"tracing_server": f"127.0.0.1:{spans_port}"} if spans_port is not None else {}
        (folder / "settings.json").write_text(json.dumps(settings | sent, indent=2))
        batching = spec.batching
        model_settings = {
            "name": deployment.model_name,
            "implementation": f"{MODULE}.OnnxModel",
            "parameters": {
                "uri": model.path,
                "version": str(model.version),
                "extra": {"threads": spec.threads, "outputs": [output.name for output in model.outputs]},
            },
            "max_batch_size": batching.max_batch_size if batching else 0,
            "max_batch_time": batching.max_delay_ms / 1e3 if batching else 0,
            "inputs": [_tensor(tensor) for tensor in model.inputs],
            "outputs": [_tensor(tensor) for tensor in model.outputs],
        }
        config_path = folder / "model-settings.json"
        config_path.write_text(json.dumps(model_settings, indent=2))
        env = {**thread_env(spec.threads), "PYTHONPATH": str(folder)}
        if spans_port is not None:
            env["OTEL_BSP_SCHEDULE_DELAY"] = "200"
        launch = Launch(
            run_id=deployment.run_id,
            folder=deployment.folder,
            config_path=config_path,
            argv=(str(python(home)), "-m", STARTER, "start", str(folder)),
            env=env,
            cwd=folder,
            port_in_use="ddress already in use",
            # Its worker processes are asked over queues, whose semaphores are shared memory.
            reach=Reach(
                reads=(str(home), model.path),
                writes=(SHARED_MEMORY,) if spec.instances > 1 else (),
                binds=(http_port, grpc_port, self._metrics_port),
                connects=(spans_port,) if spans_port is not None else (),
            ),
        )
        endpoint = Endpoint(
            protocol="grpc",
            host=deployment.host,
            port=grpc_port,
            model_name=deployment.model_name,
            model_version=str(model.version),
        )
        about = {"threads": spec.threads, "settings": settings, "model_settings": model_settings, "env": env}
        return Prepared(launch, lambda: endpoint, about)

    def statistics(self, probe: Probe) -> dict[str, Any] | None:
        """Runs and rows, from the metrics of the custom runtime; the protocol's statistics are not there."""
        url = f"http://127.0.0.1:{self._metrics_port}/metrics"
        try:
            text = fetch(url)
        except (ValueError, http.client.HTTPException) as error:
            raise ConnectionError(f"{url}: {error}") from error
        sums = {
            what: re.search(rf"^inferbench_executed_rows_{what}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
            for what in ("count", "sum")
        }
        runs, rows = sums["count"], sums["sum"]
        if runs is None or rows is None:
            return None
        return {"execution_count": int(float(runs[1])), "inference_count": int(float(rows[1]))}


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": datatype_of(spec.dtype), "shape": [-1, *spec.shape]}
