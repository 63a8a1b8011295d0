"""One model is cut; of each brick that nobody has measured a network is written. Runs inside the sandbox."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks.brick_jobs.cutting import BrickWork, CutModel, ToMeasure
from inferbench_tasks.brick_jobs.facts import BrickFacts, facts_of, with_network
from inferbench_tasks.brick_jobs.filling import measuring_s, run_s
from inferbench_tasks.errors import StageError

if TYPE_CHECKING:
    from inferbench_tasks.brick_jobs.inside.opened import DecomposeInput
    from inferbench_tasks.bricks.brick import Brick
    from inferbench_tasks.bricks.layers import LayerGraph
    from inferbench_tasks.contracts.arrays import Arrays
    from inferbench_tasks.contracts.handles import ModelArtifact
    from inferbench_tasks.contracts.models import ModelSource


class Cutter:
    """``missing``: bricks, and the whole model where it is wanted, without a time; ``known``: those that have one;
    ``facts``: key -> what the brick is, with its network where it is missing."""

    def __init__(
        self, inp: DecomposeInput, source: ModelSource, model: ModelArtifact, stored: frozenset[str]
    ) -> None:
        self._inp, self._source, self._model, self._stored = inp, source, model, stored
        self.cuts: list[CutModel] = []
        self.missing: dict[str, ToMeasure] = {}
        self.known: set[str] = set()
        self.facts: dict[str, BrickFacts] = {}

    def cut(self, batch: int, folder: Path) -> None:
        """At one batch size and all granularities. Raises InferBenchError with what can't be done."""
        from inferbench_tasks.bricks.brick import cut
        from inferbench_tasks.bricks.inputs import inputs_of
        from inferbench_tasks.bricks.layers import layer_graph
        from inferbench_tasks.bricks.measure.networks import needs_of, timed_as, whole_item
        from inferbench_tasks.bricks.results import WHOLE
        from inferbench_tasks.bricks.sequences import parse_granularity
        from inferbench_tasks.bricks.views import view_of

        inp, model = self._inp, self._model
        folder.mkdir(parents=True)
        view = view_of(inp.view)
        feeds = inputs_of(self._source, model.inputs, batch, dict(inp.shapes), samples=not view.plain)
        with tempfile.TemporaryDirectory(
            prefix="inferbench-bricks-"
        ) as scratch:  # the optimised graph's weights
            graph = layer_graph(
                self._path(feeds, Path(scratch) / "drawn"), feeds, view.name, Path(scratch), inp.runtime
            )
            if not graph.layers:
                raise StageError("the model has no layers: what it answers is constant")
            [entire] = cut(graph, None)
            whole, one_run_s = WHOLE + entire.identity, 0.0
            for granularity in inp.granularity:
                bricks = list(cut(graph, parse_granularity(str(granularity))))
                parts = tuple(timed_as(graph, brick) for brick in bricks)
                work = _work(graph, parts, bricks)
                self.cuts.append(
                    CutModel(
                        at=inp.at, name=self._source.name, copies=inp.copies, task=inp.task or model.task,
                        digest=model.digest, batch_size=batch, granularity=str(granularity),
                        layers=len(graph.executed), operators=entire.operators, whole=whole, parts=parts,
                        needs=tuple(tuple(before) for before in needs_of(bricks)),
                        work=tuple(work.values()), view=view.name, precision=inp.job.convert.precision,
                        runtime=inp.runtime,
                    )
                )  # fmt: skip
                for part, brick in zip(parts, bricks, strict=True):
                    if brick.key not in self.facts:
                        one = work[part]
                        self.facts[brick.key] = facts_of(graph, brick, one.flops, one.moved_bytes)
                if not inp.networks:
                    continue
                self._networks(graph, parts, bricks, work, folder)
                one_run_s = sum(run_s(work[part].flops, work[part].moved_bytes) for part in parts)
            if inp.networks and inp.wholes and self._are_missing([whole]):
                self.missing[whole] = ToMeasure(
                    item=whole_item(whole, Path(model.path), feeds, folder), key=entire.key,
                    operators=entire.operators, layers=self._source.name, shard=0,
                    estimate_s=measuring_s(one_run_s, inp.method, whole=True),
                )  # fmt: skip

    def _path(self, feeds: Arrays, folder: Path) -> Path:
        """The model, or one that is drawn near it."""
        path, seed = Path(self._model.path), self._inp.dummy
        if seed is None:
            return path
        from inferbench_tasks.bricks.dummies import draw_near

        return draw_near(path, feeds, seed, folder)

    def _networks(
        self,
        graph: LayerGraph,
        parts: Sequence[str],
        bricks: Sequence[Brick],
        work: Mapping[str, BrickWork],
        folder: Path,
    ) -> None:
        """Write the networks of those bricks that are missing."""
        from inferbench_tasks.bricks.measure.networks import brick_item

        missing = self._are_missing(parts)
        for identity, brick in zip(parts, bricks, strict=True):
            if identity not in missing or identity in self.missing:
                continue
            one_s = run_s(work[identity].flops, work[identity].moved_bytes)
            facts = self.facts[brick.key]
            if facts.network is None and facts.no_network is None:
                self.facts[brick.key] = with_network(facts, graph, brick, folder)
            self.missing[identity] = ToMeasure(
                item=brick_item(graph, brick, folder), key=brick.key, operators=brick.operators,
                layers=" > ".join(layer.node.name or layer.operator for layer in brick.layers), shard=0,
                estimate_s=measuring_s(one_s, self._inp.method, whole=False),
            )  # fmt: skip

    def _are_missing(self, identities: Iterable[str]) -> set[str]:
        """Those that have no time that may be used, and no network yet; notes the known ones."""
        new = set(identities) - set(self.missing)
        self.known |= new & self._stored
        return new - self._stored


def _work(graph: LayerGraph, parts: Sequence[str], bricks: Sequence[Brick]) -> dict[str, BrickWork]:
    from inferbench_tasks.brick_jobs.work import work_of

    made: dict[str, BrickWork] = {}
    for identity, brick in zip(parts, bricks, strict=True):
        if identity not in made:
            flops, moved = work_of(graph, brick)
            made[identity] = BrickWork(
                identity=identity, operators=brick.operators, flops=flops, moved_bytes=moved
            )
    return made
