"""Models are cut, one after the other; of each brick that nobody has measured a network is written."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks.brick_jobs.cutting import CutModel, ToMeasure
from inferbench_tasks.brick_jobs.filling import measuring_s, run_s
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.spec import EntrySpec
from inferbench_tasks.errors import StageError

if TYPE_CHECKING:
    from inferbench_tasks.bricks.brick import Brick
    from inferbench_tasks.bricks.layers import LayerGraph
    from inferbench_tasks.contracts.handles import ModelArtifact
    from inferbench_tasks.contracts.models import ModelSource

#: Which of these identities have a time that may be used.
Stored = Callable[[Iterable[str]], Collection[str]]


@dataclass
class Found:
    """``missing``: bricks, and whole models that are wanted, without a time that may be used; ``known``: the others."""

    cuts: list[CutModel] = field(default_factory=list)
    missing: dict[str, ToMeasure] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)

    def add(self, other: Found) -> None:
        """What another model brought."""
        self.cuts += other.cuts
        self.missing |= other.missing
        self.known |= other.known


class Cutter:
    """``found`` is what all models together brought; ``failed``: place in the list -> why that model is left out."""

    def __init__(self, job: BricksJob, folder: Path, stored: Stored) -> None:
        self._job, self._folder, self._stored = job, folder, stored
        self.found = Found()
        self.failed: dict[int, str] = {}
        folder.mkdir(parents=True)

    def cut(self, at: int, entry: EntrySpec, converted: Path, base_dir: Path) -> None:
        """All of its batch sizes and granularities, or none. Raises InferBenchError with what can't be done."""
        from inferbench_tasks.modelrepo.resolve import resolve
        from inferbench_tasks.stages.convert import Output as Converted

        try:
            model = Converted.model_validate_json(converted.read_bytes()).model
        except FileNotFoundError:
            raise StageError("it was not converted; see its own run") from None
        source = resolve(entry.model, base_dir)
        own = Found()
        for batch in self._job.bricks.batch_sizes:
            folder = self._folder / f"{at}-{batch}"
            folder.mkdir()
            self._at_batch(at, entry, model, source, batch, folder, own)
        self.found.add(own)

    def _at_batch(
        self, at: int, entry: EntrySpec, model: ModelArtifact, source: ModelSource, batch: int, folder: Path, own: Found
    ) -> None:  # fmt: skip
        from inferbench_tasks.bricks.brick import cut
        from inferbench_tasks.bricks.inputs import inputs_of
        from inferbench_tasks.bricks.layers import layer_graph
        from inferbench_tasks.bricks.measure.networks import needs_of, timed_as, whole_item
        from inferbench_tasks.bricks.results import WHOLE
        from inferbench_tasks.bricks.sequences import parse_granularity

        feeds = inputs_of(source, model.inputs, batch, dict(entry.shapes))
        with tempfile.TemporaryDirectory(
            prefix="inferbench-bricks-"
        ) as scratch:  # the optimised graph's weights
            graph = layer_graph(Path(model.path), feeds, "runtime", Path(scratch))
            if not graph.layers:
                raise StageError("the model has no layers: what it answers is constant")
            [entire] = cut(graph, None)
            whole, one_run_s = WHOLE + entire.identity, 0.0
            for granularity in self._job.bricks.granularity:
                bricks = list(cut(graph, parse_granularity(str(granularity))))
                parts = tuple(timed_as(graph, brick) for brick in bricks)
                own.cuts.append(
                    CutModel(
                        at=at, name=source.name, copies=entry.copies, task=entry.task or model.task,
                        digest=model.digest, batch_size=batch, granularity=str(granularity),
                        layers=len(graph.layers), operators=entire.operators, whole=whole, parts=parts,
                        needs=tuple(tuple(before) for before in needs_of(bricks)),
                    )
                )  # fmt: skip
                one_run_s = self._missing(graph, parts, bricks, folder, own)
            if self._job.validate.models == "all" and self._is_missing([whole], own):
                own.missing[whole] = ToMeasure(
                    item=whole_item(whole, Path(model.path), feeds, folder), key=entire.key,
                    operators=entire.operators, layers=source.name, shard=0,
                    estimate_s=measuring_s(one_run_s, self._job.measure.method, whole=True),
                )  # fmt: skip

    def _missing(
        self, graph: LayerGraph, parts: Sequence[str], bricks: Sequence[Brick], folder: Path, own: Found
    ) -> float:
        """Write the networks of those bricks that are missing; a guess of what one run of all takes, s."""
        from inferbench_tasks.brick_jobs.work import work_of
        from inferbench_tasks.bricks.measure.networks import brick_item

        method, one_run_s = self._job.measure.method, 0.0
        missing = self._is_missing(parts, own)
        for identity, brick in zip(parts, bricks, strict=True):
            one_s = run_s(*work_of(graph, brick))
            one_run_s += one_s
            if identity not in missing or identity in own.missing:
                continue
            own.missing[identity] = ToMeasure(
                item=brick_item(graph, brick, folder), key=brick.key, operators=brick.operators,
                layers=" > ".join(layer.node.name or layer.operator for layer in brick.layers), shard=0,
                estimate_s=measuring_s(one_s, method, whole=False),
            )  # fmt: skip
        return one_run_s

    def _is_missing(self, identities: Iterable[str], own: Found) -> set[str]:
        """Those that have no time that may be used and that no model before brought; notes the known ones."""
        new = {
            identity
            for identity in identities
            if identity not in self.found.missing and identity not in own.missing
        }
        known = set(self._stored(new))
        own.known |= known
        return new - known
