"""OpenVINO's counters: what each node took on average, over all inferences of a compiled model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.servers.sources.base import missing_package
from inferbench_tasks.timing.epoch import epoch_offset


class OpenVinoCounters:
    """The means of the nodes over the traced runs, in the run nearest to their mean of those that are as long as that.

    ``get_profiling_info`` looks like a run's counters, and is not: a node's ``real_time`` is its total by the number
    of inferences since the model was compiled (measured: a node whose first run took 300 us still stands at 17 us
    after twelve, and falls by each). So the mean over the runs n1+1..n2 is (n2 a2 - n1 a1) / (n2 - n1). As a1 and a2
    are whole microseconds, rounded down, it may be off by -1 to n2 / (n2 - n1) us; what this makes of a node that
    takes less can't be told from 0. When within a run a node began nobody tells: they are laid one behind the other.

    ``library``: each node's kernel, by the name that OpenVINO gives it, all of the node. What oneDNN ran in it is not
    asked: with oneDNN's verbose mode on OpenVINO (2026.4) leaves nodes out and answers wrong, now and then.
    """

    title: ClassVar[str] = "OpenVINO's counters"
    engines: ClassVar[tuple[str, ...]] = ("openvino",)
    tells: ClassVar[str] = (
        "each node's mean over the traced runs (1 to 3 us), what was fused into it, output shapes and bytes; no single "
        "run's times and no starts: one request of each round has the layers, one behind the other"
    )
    primitives: ClassVar[str] = (
        "each node's kernel by name, for all of the node's time; no FLOPs, no bytes and no primitives of oneDNN within "
        "it, for OpenVINO answers wrong when oneDNN reports them"
    )

    def __init__(self, settings: dict[str, Any], *, library: bool = False) -> None:
        settings["PERF_COUNT"] = True
        self._library = library
        self.lost = 0
        #: Inferences since the model was compiled; the engine counts them.
        self.count = 0
        self._request: Any = None
        self._graph: dict[str, dict[str, Any]] = {}
        self._readings: list[_Reading] = []

    @classmethod
    def unavailable(cls) -> str | None:
        """It comes with the runtime."""
        return missing_package("openvino")

    def compiled(self, model: Any, request: Any) -> None:
        """The engine is ready: its runtime's own graph tells what each node stands for."""
        self._request = request
        nodes = model.get_runtime_model().get_ordered_ops()
        self._graph = {node.get_friendly_name(): _known(node) for node in nodes}

    def start(self) -> None:
        """The counters count by themselves; what they stand at before the first run is kept."""
        if not self._readings:
            self._read(0, 0)

    def stop(self, start_ns: int, end_ns: int) -> None:
        """Keep what they stand at."""
        self._read(start_ns, end_ns)

    def raised(self) -> None:
        """The run that was stopped last is no inference."""
        self._readings.pop()

    def _read(self, start_ns: int, end_ns: int) -> None:
        ran = [node for node in self._request.get_profiling_info() if node.status.name == "EXECUTED"]
        nodes = [(node.node_name, node.node_type, node.exec_type) for node in ran]
        means_us = [node.real_time.total_seconds() * 1e6 for node in ran]
        self._readings.append(_Reading(self.count, start_ns, end_ns, nodes, np.array(means_us)))

    def spans(self, since_ns: int, until_ns: int) -> list[dict[str, Any]]:
        """The nodes of the traced runs' mean, within one of these runs."""
        within = [
            at for at, each in enumerate(self._readings) if at and since_ns <= each.start_ns <= until_ns
        ]
        if not within:
            return []
        before, traced = self._readings[within[0] - 1], self._readings[within[0] : within[-1] + 1]
        last = traced[-1]
        # Nodes that run in some inferences only have a number of inferences of their own, which nobody tells.
        if any(each.nodes != last.nodes for each in traced) or (before.count and before.nodes != last.nodes):
            self.lost = len(traced)
            return []
        count = last.count - before.count
        total_us = last.count * last.means_us - (before.count * before.means_us if before.count else 0)
        means_ns = np.maximum(0, np.rint(total_us / count * 1000)).astype(np.int64)
        run = _holding(traced, int(means_ns.sum()))
        ends_ns = run.start_ns + epoch_offset()["offset_ns"] + np.cumsum(means_ns)
        about = {"mean_of_runs": count, "error_us": round(last.count / count, 2)}
        layers = [
            {
                "name": name,
                "type": type_,
                "start_ns": int(end - mean),
                "end_ns": int(end),
                "attributes": {"kernel": kernel, **about, **self._graph.get(name, {})},
            }
            for (name, type_, kernel), mean, end in zip(last.nodes, means_ns, ends_ns, strict=True)
        ]
        if self._library:
            for layer in layers:
                layer["inside"] = [_kernel(layer)]
        return layers


@dataclass(frozen=True)
class _Reading:
    """What the counters stood at after a run: so many inferences, each executed node with its mean."""

    count: int
    start_ns: int
    end_ns: int
    nodes: list[tuple[str, str, str]]
    means_us: NDArray[np.float64]

    @property
    def length_ns(self) -> int:
        """What its run took."""
        return self.end_ns - self.start_ns


def _holding(runs: list[_Reading], nodes_ns: int) -> _Reading:
    """The run nearest to the runs' mean that is as long as the nodes are together.

    Where one run took many times what the others did (another process had the core), the mean is longer than any of
    these: in one of them its nodes would lie beyond the run, and be nobody's layers.
    """
    mean_ns = sum(run.length_ns for run in runs) / len(runs)
    long_enough = [run for run in runs if run.length_ns >= nodes_ns]
    if not long_enough:  # by what the counters' rounding makes of them
        return max(runs, key=lambda run: run.length_ns)
    return min(long_enough, key=lambda run: abs(run.length_ns - mean_ns))


def _kernel(layer: dict[str, Any]) -> dict[str, Any]:
    """The kernel that a node ran, which is all of it."""
    about = layer["attributes"]
    return {
        "name": about["kernel"],
        **{name: layer[name] for name in ("type", "start_ns", "end_ns")},
        "attributes": {"library": "OpenVINO", "mean_of_runs": about["mean_of_runs"]},
        "inside": [],
    }


def _known(node: Any) -> dict[str, Any]:
    """What the runtime's graph tells of a node: the operators that it stands for, the shape of what it gives."""
    about = node.get_rt_info()
    names = str(about["originalLayersNames"].value) if "originalLayersNames" in about else ""
    known: dict[str, Any] = {"fused": [name for name in names.split(",") if name]}
    if node.get_output_size():
        shapes = [node.get_output_partial_shape(at) for at in range(node.get_output_size())]
        known["output_shapes"] = [
            [dim.get_length() if dim.is_static else -1 for dim in shape]
            for shape in shapes
            if shape.rank.is_static
        ]
        if all(shape.is_static for shape in shapes):
            known["output_bytes"] = sum(
                int(np.prod(shape.to_shape())) * node.get_output_element_type(at).size
                for at, shape in enumerate(shapes)
            )
    return known
