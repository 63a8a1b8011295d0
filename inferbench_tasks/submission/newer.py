"""Fields of serving jobs that came later, each with the value that says what was before: digests leave these out."""

from __future__ import annotations

from typing import Any

NEWER: dict[str, Any] = {
    "load.expect": None,
    "evaluate": None,
    "evaluate.dataset": None,
    "evaluate.path": None,
    "evaluate.split": None,
    "evaluate.part": None,
    "evaluate.parts": None,
    "evaluate.measures": None,
    "evaluate.tolerance_ratio": None,
    "evaluate.vary": None,
    "evaluate.spans": None,
    "trace": None,
    "trace.one_in": None,
    "trace.batch_size": None,
    "load.endpoint": None,
    "load.transport": "network",
    "load.from": "server_host",
    "load.client_hosts": 1,
    "load.scenario": None,
    "stack": None,
    "serve.devices": 1,
    "serve.balancer": None,
    "serve.spread": "one_host",
    "serve.framework": None,
    "serve.slots": None,
    "serve.context_tokens": None,
    "serve.prefix_cache": None,
    "serve.dummy_weights": False,
    "requests.sizes": None,
    "model.signature": None,
    "systems": None,
    "system": None,
}
