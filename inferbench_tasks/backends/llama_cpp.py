"""``llama_cpp``: llama.cpp's own server of OpenAI's API, from the package xllamacpp in an environment of its own."""

from __future__ import annotations

import json
import platform
from importlib import resources
from typing import Any

from inferbench_tasks.backends.base import Deployment, Prepared, thread_env
from inferbench_tasks.backends.environments import LOCKS, Environment, python
from inferbench_tasks.backends.language_server import (
    CACHE_RAM_MIB,
    CONTEXT_TOKENS,
    SLOTS,
    LanguageServer,
    endpoint_at,
)
from inferbench_tasks.backends.ports import free_ports
from inferbench_tasks.backends.probes.base import Probe
from inferbench_tasks.contracts.token_counters import Mean, TokenCounters
from inferbench_tasks.errors import ServerError
from inferbench_tasks.launchers.base import Launch
from inferbench_tasks.sandbox import Reach

XLLAMACPP = "2026.10.11549"
#: What starts it.
STARTER = "inferbench_llama_cpp"
#: Each open stream keeps one of them; requests beyond wait to be read, as they would for a slot.
HTTP_THREADS = 128


def environment() -> Environment:
    """One wheel without requirements; llama.cpp is in it."""
    return Environment("llama_cpp", (f"xllamacpp=={XLLAMACPP}",), 110, lock=LOCKS / "llama_cpp.txt")


class LlamaCpp(LanguageServer):
    """Continuous batching over slots, each with a context of its own."""

    kind = "llama_cpp"
    package = "xllamacpp"
    formats = ("gguf",)
    #: It counts a prompt when it is done and an answer when it ends; of tokens it counts the first one, too, whose time
    #: is the prompt's.
    token_counters = TokenCounters(
        means={
            "prompt_token_ms": Mean("llamacpp:prompt_seconds_total", "llamacpp:prompt_tokens_total"),
            "output_token_ms": Mean(
                "llamacpp:tokens_predicted_seconds_total", "llamacpp:tokens_predicted_total"
            ),
        },
        totals={
            "prompt_tokens": "llamacpp:prompt_tokens_total",
            "cached_tokens": "llamacpp:prompt_tokens_cached_total",
            "output_tokens": "llamacpp:tokens_predicted_total",
        },
        gauges={
            "waiting_requests": "llamacpp:requests_deferred",
            "running_requests": "llamacpp:requests_processing",
        },
    )

    @classmethod
    def unavailable(cls, launcher: str, device: str = "cpu") -> str | None:
        """Its environment is made on first use, of a wheel for Linux."""
        if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"):
            return f"its package has no wheel for {platform.system()} on {platform.machine()}"
        return None

    def environment(self) -> Environment:
        return environment()

    def version(self) -> str:
        """The package's, whose last number is llama.cpp's build."""
        return XLLAMACPP

    def label(self) -> str:
        """llama.cpp's build, and the package that brings it."""
        return f"llama.cpp b{XLLAMACPP.rpartition('.')[2]} (xllamacpp {XLLAMACPP})"

    def prepare(self, deployment: Deployment) -> Prepared:
        """The starter beside its settings."""
        spec, model = deployment.spec, deployment.model
        home = environment().ensure(deployment.cache_dir)
        folder = deployment.folder / "llama_cpp"
        folder.mkdir(exist_ok=True)
        source = resources.files("inferbench_tasks.backends.llama_cpp_server") / f"{STARTER}.py"
        (folder / source.name).write_text(source.read_text())
        port = deployment.port or free_ports(1, deployment.host)[0]
        prefix_cache = spec.prefix_cache is not False
        settings: dict[str, Any] = {
            "model": model.path,
            "name": deployment.model_name,
            "host": deployment.host,
            "port": port,
            "slots": spec.slots or SLOTS,
            "context_tokens": spec.context_tokens or CONTEXT_TOKENS,
            "threads": spec.threads,
            "http_threads": HTTP_THREADS,
            "prefix_cache": prefix_cache,
            "prefix_cache_ram_mib": CACHE_RAM_MIB if prefix_cache else 0,
        }
        config_path = folder / "settings.json"
        config_path.write_text(json.dumps(settings, indent=2))
        self._context_tokens: int = settings["context_tokens"]
        env = {**thread_env(spec.threads), "PYTHONPATH": str(folder)}
        launch = Launch(
            run_id=deployment.run_id,
            folder=deployment.folder,
            config_path=config_path,
            argv=(str(python(home)), "-m", STARTER, str(config_path)),
            env=env,
            cwd=folder,
            port_in_use="couldn't bind HTTP server socket",
            reach=Reach(reads=(str(home), model.path), binds=(port,)),
        )
        endpoint = endpoint_at(deployment, port)
        about = {
            name: value for name, value in settings.items() if name not in ("model", "name", "host", "port")
        }
        return Prepared(launch, lambda: endpoint, about, drawn={"metrics_port": port})

    def ready(self, probe: Probe) -> bool:
        """Whether it lists the model. ServerError where the model's context is shorter than what was asked for."""
        if not probe.ready():
            return False
        about = probe.model()  # type: ignore[attr-defined]  # of OpenAI's API, which is the only one here
        context = (about.get("meta") or {}).get("n_ctx")
        if isinstance(context, int) and context < self._context_tokens:
            raise ServerError(
                f"The model takes {context} tokens, prompt and answer together; set serve.context_tokens: {context}"
            )
        return True
