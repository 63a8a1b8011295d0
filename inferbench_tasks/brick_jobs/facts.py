"""What a brick is, whether it was measured or not: shapes, work, and its network without weights."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.errors import InputError, StageError

if TYPE_CHECKING:
    import onnx_ir as ir

    from inferbench_tasks.bricks.brick import Brick
    from inferbench_tasks.bricks.layers import LayerGraph

log = logging.getLogger(__name__)
#: A network that is larger without its weights is not kept: its integers and masks are.
MOST_NETWORK_BYTES = 16 << 20
Text = Annotated[str, Field(max_length=200)]


class Tensor(Handle):
    """``dtype``: numpy's name; ``shape``: with the batch."""

    dtype: Text
    shape: tuple[int, ...]


class BrickFacts(Handle):
    """Of one key. ``weights``: those that its operators take, in order, those of bodies left out; ``flops``,
    ``moved_bytes``: as ``BrickWork``. ``network``: a file; None where it is not wanted, or can't be kept, and then
    ``no_network`` says why."""

    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    operators: tuple[Text, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]
    flops: float
    moved_bytes: float
    instruction_set: Text | None = None
    network: Path | None = None
    no_network: Annotated[str, Field(max_length=1000)] | None = None


def facts_of(graph: LayerGraph, brick: Brick, flops: float, moved_bytes: float) -> BrickFacts:
    """What the recorded run tells of a brick, without its network."""
    return BrickFacts(
        key=brick.key, operators=brick.operators, flops=flops, moved_bytes=moved_bytes,
        instruction_set=graph.instruction_set, inputs=_recorded(graph, brick.inputs),
        outputs=_recorded(graph, brick.outputs), weights=_weights(brick),
    )  # fmt: skip


def with_network(facts: BrickFacts, graph: LayerGraph, brick: Brick, folder: Path) -> BrickFacts:
    """The same with the brick's network in the folder, or why it has none: a brick without one is measured all the
    same. What a library says of the model is not told: it may name what is the model's."""
    from inferbench_tasks.bricks.bare import bare
    from inferbench_tasks.bricks.saving import save_network, weights_bytes

    try:
        model = bare(graph, brick)
        _refuse_large(weights_bytes(model))
        path = save_network(model, folder / f"{brick.key}.bare.onnx")
        _refuse_large(path.stat().st_size)
    except Exception as error:  # noqa: BLE001 - whatever a library makes of a stranger's graph
        log.warning("a brick's network is not kept key=%s why=%s", brick.key, error)
        ours = isinstance(error, InputError)
        why = str(error)[:1000] if ours else f"it can't be made: {type(error).__name__}"
        return facts.model_copy(update={"no_network": why})
    return facts.model_copy(update={"network": path})


def _refuse_large(size_bytes: int) -> None:
    if size_bytes > MOST_NETWORK_BYTES:
        raise InputError(
            f"without weights it has {size_bytes:,} bytes still, more than the {MOST_NETWORK_BYTES:,} that are kept"
        )


def own_networks(every: Iterable[BrickFacts], networks: Path) -> None:
    """StageError unless each network is a file of the folder, and no larger than what is kept.

    Who read a stranger's model may say anything: what it names is read by whoever keeps it.
    """
    folder = networks.resolve()
    for one in every:
        if (path := one.network) is None:
            continue
        if not path.resolve().is_relative_to(folder) or not path.is_file():
            raise StageError(f"its process named a network that is not its own: {one.key}")
        if path.stat().st_size > MOST_NETWORK_BYTES + (1 << 20):
            raise StageError(f"its process made a network of {path.stat().st_size:,} bytes of {one.key}")


def _recorded(graph: LayerGraph, values: Sequence[ir.Value]) -> tuple[Tensor, ...]:
    records = [graph.records[value.name or ""] for value in values]
    return tuple(Tensor(dtype=record.dtype, shape=record.shape) for record in records)


def _weights(brick: Brick) -> tuple[Tensor, ...]:
    from inferbench_tasks.bricks.constants import is_own_table, is_weight

    found: dict[ir.Value, Tensor] = {}
    for layer in brick.layers:
        operator = layer.node.op_type
        for place, value in enumerate(layer.node.inputs):
            tensor = value.const_value if value is not None and value.is_initializer() else None
            if value is None or tensor is None:
                continue
            if not is_weight(tensor, operator) and not is_own_table(tensor, operator, place):
                continue
            shape = tuple(int(size) for size in tensor.shape.numpy())
            found[value] = Tensor(dtype=tensor.dtype.numpy().name, shape=shape)
    return tuple(found.values())
