"""Abilities with one backend that can do very little, whatever the real ones learn to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from inferbench_tasks.abilities import InstalledAbilities


@dataclass
class Narrow:
    """What the checks ask a backend for."""

    formats: tuple[str, ...] = ("onnx",)
    protocols: tuple[str, ...] = ("http",)
    launchers: tuple[str, ...] = ("process",)
    devices: tuple[str, ...] = ("cpu",)
    batching: bool = False
    tfs_predict: bool = False
    streams: bool = False
    server_processors: bool = False
    shared_memory: bool = False
    guarded: bool = False
    replicas: bool = False
    package: str | None = None
    other_versions: bool = False
    slots: bool = False
    dummy_weights: bool = False
    slot_tokens: int | None = None
    sends_spans: Literal["otlp_json", "otlp_grpc"] | None = None

    def levels_of(self, model_format: str) -> tuple[str, ...]:
        """It tells of no single request."""
        return ()

    def not_deeper(self, model_format: str) -> str:
        """Nor does it say why."""
        return ""


class NarrowAbilities(InstalledAbilities):
    """Every backend is the narrow one."""

    def backend(self, name: str) -> Narrow:  # type: ignore[override]
        return Narrow()
