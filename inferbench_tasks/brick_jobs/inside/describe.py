"""One model's bricks in one view, for whoever looks at them: counts, sequence, proof, networks."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.brick_jobs.inside.opened import CutInput, opened
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.contracts.handles import Handle, ModelArtifact
from inferbench_tasks.stages.base import Context, Stage

if TYPE_CHECKING:
    from inferbench_tasks.bricks.decomposition import Decomposition
    from inferbench_tasks.contracts.arrays import Arrays

STAGE = Stage(in_child=True)
#: Where networks are written, in the run's folder.
SAVED = "saved"


class Input(CutInput):
    """``check``: compare the bricks, one after the other, with the model; ``save``: write each unique brick."""

    view: str = "runtime"
    runtime: str = DEFAULT
    granularity: str = "1"
    batch: int = 1
    check: bool = False
    save: bool = False


class Output(Handle):
    """See ``bricks/decomposition.py``."""

    summary: dict[str, Any]
    by_operators: tuple[dict[str, Any], ...]
    sequence: tuple[dict[str, Any], ...]


def without_child(inp: Input, ctx: Context) -> Output | None:
    """Nothing is kept of it."""
    return None


def run(inp: Input, ctx: Context) -> Output:
    """InputError for sizes, a view or a granularity that the model can't have."""
    from inferbench_tasks.bricks.brick import cut
    from inferbench_tasks.bricks.decomposition import Decomposition
    from inferbench_tasks.bricks.inputs import inputs_of
    from inferbench_tasks.bricks.layers import layer_graph
    from inferbench_tasks.bricks.sequences import parse_granularity

    source, model = opened(inp, ctx)
    feeds = inputs_of(source, model.inputs, inp.batch, dict(inp.shapes))
    most = parse_granularity(inp.granularity)
    with tempfile.TemporaryDirectory(prefix="inferbench-bricks-") as scratch:
        folder = Path(scratch)
        ctx.progress(0, None, "recording one run")
        graph = layer_graph(Path(model.path), feeds, inp.view, folder, inp.runtime)
        found = Decomposition(graph, most, list(cut(graph, most)))
        summary = {"model": source.name, "batch_size": inp.batch, "runtime": inp.runtime, **found.summary()}
        if inp.check:
            ctx.progress(0, None, "comparing with the whole model")
            summary |= _checked(found, feeds, model, folder)
        if inp.save:
            ctx.progress(0, None, "writing networks")
            _save(found, ctx.run_dir(inp.run_id) / SAVED)
    return Output(summary=summary, by_operators=tuple(found.by_operators()), sequence=tuple(found.sequence()))


def _checked(found: Decomposition, feeds: Arrays, model: ModelArtifact, folder: Path) -> dict[str, Any]:
    from inferbench_tasks.bricks.chain import prove
    from inferbench_tasks.bricks.runtimes import runtime_of

    whole = runtime_of(found.graph.runtime).open(Path(model.path), feeds, threads=1, whole=True)
    answer = dict(zip(found.graph.outputs, whole.answers(feeds), strict=True))
    proof = prove(found.graph, found.bricks, feeds, answer, folder)
    return {
        "proved": proof.holds,
        "edges": proof.edges,
        "edges_ratio": proof.edges_ratio,
        "answer_ratio": proof.answer_ratio,
        "allowed_ratios": [proof.edges_allowed_ratio, proof.answer_allowed_ratio],
    }


def _save(found: Decomposition, folder: Path) -> None:
    from inferbench_tasks.bricks.networks import network
    from inferbench_tasks.bricks.saving import save_network

    folder.mkdir()
    for key, brick in found.unique.items():
        save_network(network(found.graph, brick), folder / f"{key}.onnx")
