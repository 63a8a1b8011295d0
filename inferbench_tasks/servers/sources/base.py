"""What tells of the layers of a traced run: one file per instrument, all with ``start``, ``stop``, ``spans``."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from inferbench_tasks.registry import Registry


class LayerSource(Protocol):
    """An instrument of one engine's runtime; an engine that has one keeps it as ``source``.

    The class attributes are its card in ``inferbench trace sources``. One that tells of the primitives within layers
    too (the level library) says what it tells of them in ``primitives``.
    """

    #: Its name for people; the engines that have it; what it can tell, and what not.
    title: ClassVar[str]
    engines: ClassVar[tuple[str, ...]]
    tells: ClassVar[str]
    #: Runs of which it told nothing because a bound of its runtime was reached; known after ``spans``.
    lost: int

    @classmethod
    def unavailable(cls) -> str | None:
        """Why it can't run here; None if it can. Looks, installs nothing."""
        ...

    def start(self) -> None:
        """A run begins; called by the thread that runs it, outside of what is timed."""
        ...

    def stop(self, start_ns: int, end_ns: int) -> None:
        """That run is over, by the same thread; its moments are CLOCK_MONOTONIC ns."""
        ...

    def spans(self, since_ns: int) -> list[dict[str, Any]]:
        """The layers of the runs that began at ``since_ns`` (CLOCK_MONOTONIC) or later; told once, at the end.

        Each {name, type, start_ns, end_ns, attributes}, Unix time; ``attributes`` has ``output_shapes``,
        ``output_bytes`` and others where they are known, None or absent where not. With primitives also ``inside``,
        spans of the same form.
        """
        ...


SOURCES: Registry[type[LayerSource]] = Registry(
    "trace source",
    "inferbench.trace_sources",
    {
        "onnxruntime_profile": "inferbench_tasks.servers.sources.onnxruntime:OnnxRuntimeProfile",
        "openvino_counters": "inferbench_tasks.servers.sources.openvino:OpenVinoCounters",
        "torch_profiler": "inferbench_tasks.servers.sources.torch_profiler:TorchProfiler",
    },
)


def missing_package(package: str) -> str | None:
    """That a distribution is not installed; None if it is."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(package)
    except PackageNotFoundError:
        return f"the package {package} is not installed"
    return None
