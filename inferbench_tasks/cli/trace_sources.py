"""``inferbench trace sources``: what tells of which level here, and why the others do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit
from inferbench_tasks.registry import Registry
from inferbench_tasks.servers.sources.absent import ABSENT, of_nvml, sources_of_ours
from inferbench_tasks.servers.sources.base import HARDWARE, SOURCES, HardwareSource, LayerSource, untold


def sources(output: OutputFormat = OUTPUT) -> None:
    """What tells of which level here, of which backends, and why the others do not."""
    emit(
        [
            *sources_of_ours(),
            of_nvml(),
            *_each(SOURCES, "layer", _of_layers),
            *_each(HARDWARE, "hardware", _of_hardware),
            *(source.as_row() for source in ABSENT),
        ],
        output,
    )


def _each(
    registry: Registry[Any], level: str, rows: Callable[[str, Any], list[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """The rows of every source of a registry; of one that can't be had, why."""
    for kind in registry:
        try:
            yield from registry.told(kind, partial(rows, kind))
        except InferBenchError as error:  # one broken plugin hides no other
            yield {
                "source": kind, "level": level, "of": "", "here": False, "tells": "", "why_not": str(error),
            }  # fmt: skip


def _of_layers(kind: str, source: type[LayerSource]) -> list[dict[str, Any]]:
    why = source.unavailable()
    about = {"source": kind, "level": "layer", "of": ", ".join(source.engines), "here": why is None}
    rows = [{**about, "tells": source.tells, "why_not": why or ""}]
    # Sources of others may tell of layers alone.
    if primitives := getattr(source, "primitives", ""):
        why = untold(source, "library")
        rows.append(
            {**about, "level": "library", "here": why is None, "tells": primitives, "why_not": why or ""}
        )
    if on_gpu := getattr(source, "on_gpu", ""):
        why = untold(source, "library", "gpu")
        of = f"{about['of']} on a GPU"
        rows.append(
            {
                **about,
                "level": "hardware",
                "of": of,
                "here": why is None,
                "tells": on_gpu,
                "why_not": why or "",
            }
        )
    return rows


def _of_hardware(kind: str, source: type[HardwareSource]) -> list[dict[str, Any]]:
    why = source.unavailable()
    return [
        {
            "source": kind, "level": "hardware", "of": "our server", "here": why is None, "tells": source.tells,
            "why_not": why or "",
        }
    ]  # fmt: skip
