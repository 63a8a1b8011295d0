"""Starts llama.cpp's own server with the settings of a file: ``python -m inferbench_llama_cpp settings.json``.

Runs in the environment of the backend ``llama_cpp``, which has nothing of ours.
"""

import json
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import xllamacpp  # type: ignore[import-not-found]


def parameters(settings: dict[str, Any]) -> Any:
    """llama.cpp's parameters: those of the settings, and what a measurement must not have."""
    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.model_alias = {settings["name"]}
    params.hostnames = [settings["host"]]
    params.port = settings["port"]
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["slots"] * settings["context_tokens"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.n_threads_http = settings["http_threads"]
    params.cache_prompt = settings["prefix_cache"]
    params.cache_ram_mib = settings["prefix_cache_ram_mib"]
    params.fit_params = (
        False  # a context of what memory happens to be free would be another setting each time
    )
    params.endpoint_metrics = True
    params.offline = True
    params.ui = params.endpoint_slots = params.endpoint_props = False  # others' prompts, and pages
    return params


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    server = xllamacpp.Server(parameters(json.loads(Path(sys.argv[1]).read_text())))
    print("ready:", server.listening_address, flush=True)  # noqa: T201 - its log
    while True:
        signal.pause()
