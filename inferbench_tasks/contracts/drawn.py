"""What a server's start merely drew: free ports, the folders and files of its run, where a cache lies.

Nobody asked for it and no figure depends on it, so it is no part of what identifies, names or compares configurations:
a result keeps it apart from the settings. Which that is of our backends is listed here, for earlier versions stored it
among the settings: whoever reads these from results takes it out by ``settled``. A backend of a package gives others
apart itself (``backends.base.Prepared.drawn``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferbench_tasks.dotted import parts, set_at, value_at

#: Dotted paths below a backend's settings.
DRAWN = (
    "metrics_port",
    "trace.file",
    # MLServer
    "env.PYTHONPATH",
    *(f"settings.{name}" for name in ("http_port", "grpc_port", "metrics_port", "metrics_dir")),
    "model_settings.parameters.uri",
    # TensorFlow Serving and TorchServe
    *(f"options.{name}" for name in ("port", "rest_api_port", "model_base_path", "batching_parameters_file")),
    *(f"options.{name}" for name in ("inference_address", "management_address", "metrics_address")),
    *(f"options.{name}" for name in ("grpc_inference_port", "grpc_management_port", "initial_worker_port")),
    "options.model_store",
)


def settled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A backend's settings without what was merely drawn; the mapping stays as it is."""
    return apart(settings)[0]


def apart(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings without what was merely drawn, and that alone, at the same paths."""
    kept = dict(settings)
    drawn: dict[str, Any] = {}
    for path in DRAWN:
        value = value_at(settings, path)
        if value is not None:
            set_at(drawn, path, value)
            kept = _without(kept, parts(path))
    return kept, drawn


def _without(settings: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    first, *rest = path
    if rest:
        return {**settings, first: _without(settings[first], tuple(rest))}
    return {name: value for name, value in settings.items() if name != first}
