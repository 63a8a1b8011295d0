"""What tells of traced runs: one file per instrument. Those of layers have ``start``, ``stop``, ``spans``; those of the
level hardware, which tell what a whole run used, ``start`` and ``stop``.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from inferbench_tasks.registry import Registry


class LayerSource(Protocol):
    """An instrument of one engine's runtime; an engine that has one keeps it as ``source``.

    The class attributes are its card in ``inferbench trace sources``. One that tells of the primitives within layers
    too (the level library) says what it tells of them in ``primitives``, and where these may be unavailable by
    themselves, why, in a class method ``primitives_unavailable``; one that does so by samples has, after ``spans``,
    ``sampling``: {runs, left_out, lost}, and ``dropped`` where it bounds what it keeps, see ``SampledObjects``. One
    that met primitives in no layer has them as ``outside``, see ``gpu_work.in_no_layer``, of the traced runs, after
    ``spans``. One that tells of runs on a GPU has ``unavailable_on(device)``, all that is against it there, says what
    it tells of the GPU's own work in ``on_gpu``, and may have after ``spans`` ``gpu_clock_error_ns``, how far its
    moments may be off. One that knows what kind its lost runs are of says so in ``why_lost``. One that counts runs
    without a word (``lost``) has ``raised``, called after ``stop`` of a run that raised: it is none of those that it
    should tell of.
    """

    #: Its name for people; the engines that have it; what it can tell, and what not.
    title: ClassVar[str]
    engines: ClassVar[tuple[str, ...]]
    tells: ClassVar[str]
    #: Runs from the first traced request on of which it told nothing, for whatever reason; none that raised. Known
    #: after ``spans``.
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

    def spans(self, since_ns: int, until_ns: int) -> list[dict[str, Any]]:
        """The layers of the runs that began between these two (CLOCK_MONOTONIC), those of the traced requests; told
        once, at the end. What else it tells of is left out by whoever asks, for no run of a request is around it.

        Each {name, type, start_ns, end_ns, attributes}, Unix time; ``attributes`` has ``output_shapes``,
        ``output_bytes`` and others where they are known, None or absent where not. With primitives also ``inside``,
        spans of the same form.
        """
        ...


#: What a run used, as attributes of its span; None of what nobody told this time.
Used = dict[str, int | float | None]


class HardwareSource(Protocol):
    """An instrument of what runs used, whichever runtime it is; each engine that is traced has one of its own.

    The class attributes are its card in ``inferbench trace sources``; ``tells`` says whose figures they are.
    """

    title: ClassVar[str]
    tells: ClassVar[str]

    @classmethod
    def unavailable(cls) -> str | None:
        """Why it can't run here, and what helps; None if it can. Looks, installs nothing."""
        ...

    def start(self) -> None:
        """A run begins; called by the thread that runs it, outside of what is timed."""
        ...

    def stop(self) -> Used:
        """That run is over, by the same thread: what it used; nothing where the source is not there."""
        ...


#: The first is the outermost: what the next ones do to tell is in its figures.
HARDWARE: Registry[type[HardwareSource]] = Registry(
    "hardware source",
    "inferbench.hardware_sources",
    {
        "process_use": "inferbench_tasks.servers.sources.process_use:ProcessUse",
        "perf_counters": "inferbench_tasks.servers.sources.perf_counters:PerfCounters",
        "thread_use": "inferbench_tasks.servers.sources.thread_use:ThreadUse",
    },
)
SOURCES: Registry[type[LayerSource]] = Registry(
    "trace source",
    "inferbench.trace_sources",
    {
        "onnxruntime_profile": "inferbench_tasks.servers.sources.onnxruntime:OnnxRuntimeProfile",
        "openvino_counters": "inferbench_tasks.servers.sources.openvino:OpenVinoCounters",
        "torch_profiler": "inferbench_tasks.servers.sources.torch_profiler:TorchProfiler",
        "tensorflow_profiler": "inferbench_tasks.servers.sources.tensorflow:TensorFlowProfiler",
    },
)


def untold(source: type[LayerSource], level: str, device: str = "cpu") -> str | None:
    """Why the source can't tell of the level (layer, library) here, of runs on a ``cpu`` or ``gpu``, and what helps;
    None if it can."""
    if device != "cpu":
        if (on := getattr(source, "unavailable_on", None)) is None:
            return f"{source.title}: of runs on a CPU alone"
        why: str | None = on(device)
        return why
    # Only sources whose primitives need more than its layers have it.
    of_primitives = getattr(source, "primitives_unavailable", None) if level == "library" else None
    return source.unavailable() or (of_primitives() if of_primitives is not None else None)


def missing_package(package: str) -> str | None:
    """That a distribution is not installed; None if it is."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(package)
    except PackageNotFoundError:
        return f"the package {package} is not installed"
    return None
