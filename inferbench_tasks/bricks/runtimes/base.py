"""What a runtime has to bring so that bricks and whole models can be cut for it, timed by it and added up."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from inferbench_tasks import extras
from inferbench_tasks.bricks.processor import instruction_set
from inferbench_tasks.bricks.saving import save_network
from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.contracts.device import DeviceKind
from inferbench_tasks.errors import InputError

if TYPE_CHECKING:
    import onnx_ir as ir


class Loaded(ABC):
    """One network in the runtime, ready to run.

    ``bursts``: whether it runs on a device that works on while the host goes on; ``burst_ns`` and ``cool`` are then
    asked.
    """

    bursts: ClassVar[bool] = False

    @abstractmethod
    def answers(self, feeds: Arrays) -> list[Array]:
        """What it gives for these inputs, in the order of its outputs; nothing of it is timed."""

    @abstractmethod
    def bind(
        self, feeds: Arrays, answers: Sequence[Array], onto: Sequence[tuple[int, int]]
    ) -> list[Array] | None:
        """Put all inputs and outputs where they stay, so that ``run`` moves and allocates nothing.

        ``feeds``: by name, in the order of the network's inputs; ``answers``: arrays of the outputs' shapes and types.
        ``onto``: (output, input) by position, of outputs that are written onto that input; a runtime that can't do so
        leaves it out. The answer is a view of each input and then of each output, as they are while it runs, or None
        where nothing can be put in place (texts): ``run`` then takes the inputs anew each time.
        """

    @abstractmethod
    def run(self) -> None:
        """One run on what ``bind`` was given; returns when the outputs are there."""

    def burst_ns(self) -> tuple[int, int | None]:
        """What one of several runs in a row took between two synchronisations, by the wall; and by the device's own
        clock, None where that can't be read."""
        raise NotImplementedError("it runs on the host, run after run")

    def cool(self) -> None:
        """Put the device's caches into the state ``streamed``: weights are not in them, inputs are."""
        raise NotImplementedError("its caches are the host's")


class BrickRuntime(ABC):
    """One runtime. It is made without arguments, and nothing is imported before a method needs it.

    ``title``: its name in sentences. ``extra``: the optional part of InferBench that brings it, None where nothing is
    missing or where a package of its own does. ``fuses``: whether its executed graph is no ONNX, so that its bricks are
    groups of the model's own layers (``executed``); else they are those of the graph that it writes (``optimised``).
    ``views``: those that it can be timed in (``bricks/views.py``);
    ``runtime`` is one of them. ``precisions``: of models whose bricks it computes as they are. ``device``: the kind
    that it runs on, of which ``processor`` and ``instruction_set`` tell more.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    extra: ClassVar[str | None] = None
    fuses: ClassVar[bool] = False
    views: ClassVar[tuple[str, ...]] = ("runtime", "source")
    precisions: ClassVar[tuple[str, ...]] = ("fp32",)
    #: Of precisions that it has not: why, for who asks for one.
    refused: ClassVar[Mapping[str, str]] = {}
    device: ClassVar[DeviceKind] = "cpu"

    @abstractmethod
    def version(self) -> str:
        """Its version: results of two versions are never taken for each other's."""

    @abstractmethod
    def open(self, path: Path, feeds: Arrays, *, threads: int, whole: bool) -> Loaded:
        """Load an ONNX file. ``whole``: a model as it is served; else a brick of it, which is run as it is within the
        model: what was already optimised must not be optimised otherwise. ``feeds``: what it will be fed, by name; only
        a whole model leaves sizes open."""

    def optimised(self, path: Path, view: str) -> Path:
        """The ONNX graph of a view, of a model whose sizes are fixed; written beside it where it is another one.

        For a runtime that can't write what it executes: the model, unchanged (and see ``executed``).
        """
        return path

    def executed(self, path: Path, feeds: Arrays) -> Sequence[Sequence[str]]:
        """Of a runtime that ``fuses``: for each layer that it executes, in the order of execution, the names of the
        ONNX layers that it is known to have come from.

        ``path``: the model with fixed sizes and without what they make constant, each layer with a name of its own.
        Names may be missing and unknown ones are passed over; ``fusion.py`` tells what becomes of layers without one.
        InputError where the model can't be loaded.
        """
        raise NotImplementedError(f"{self.name} fuses layers and does not say which")

    def answers(self, network: ir.Model, feeds: Arrays) -> list[Array]:
        """What a brick's network gives, on one thread."""
        with tempfile.TemporaryDirectory(prefix="inferbench-brick-") as folder:
            path = save_network(network, Path(folder) / "brick.onnx")
            return self.open(path, feeds, threads=1, whole=False).answers(feeds)

    def processor(self) -> str:
        """The name of what it runs on here: times are of one."""
        from inferbench_tasks.monitors.environment import processor

        return processor()

    def instruction_set(self) -> str:
        """What its executed graphs depend on beside the model; a part of their bricks' keys."""
        return instruction_set()

    def unavailable(self) -> str | None:
        """Why its device can't be used here, with what helps; None where it can. Nothing is installed."""
        return None

    def require(self) -> None:
        """Make sure that it can be used here: what brings it is installed on first use, where it may be.

        InputError says what is missing, and what brings it.
        """
        if self.extra is not None:
            extras.require(self.extra)

    def require_view(self, view: str) -> None:
        """InputError lists the views that it has."""
        if view not in self.views:
            raise InputError(
                f"the runtime {self.name} has no view {view!r} of a model; it has: {', '.join(self.views)}",
                field="view",
            )

    def full_name(self) -> str:
        """Name and version, as results have them."""
        return f"{self.name} {self.version()}"
