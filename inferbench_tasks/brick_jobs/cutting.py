"""What the stage ``decompose`` found, as the shards and the report read it."""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks.brick_jobs.chosen import Wanted
from inferbench_tasks.bricks.measure.child import Item
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.contracts.handles import Handle, TensorSpec

FILE = "cutting.json"
NETWORKS = "networks"


class BrickWork(Handle):
    """What a brick does, whether it was measured or not: its operators, and a rough count of its work."""

    identity: str
    operators: tuple[str, ...]
    flops: float
    moved_bytes: float


class CutModel(Handle):
    """One model at one batch size and granularity. ``at``: its place in the list; ``whole``: the identity that it is
    timed as; ``parts``: those of its bricks in order, ``needs``: the positions that each takes from.

    ``made_from``: what it was made of (``made_from.py``), None where that is not known; ``source``: the same without
    the sizes of its free inputs, which are ``shapes`` (name, sizes without batch; in the order of their names).
    ``inputs``, ``outputs``: those of the model that is served."""

    at: int
    name: str
    copies: int
    task: str | None
    digest: str
    batch_size: int
    granularity: str
    layers: int
    operators: tuple[str, ...]
    whole: str
    parts: tuple[str, ...]
    needs: tuple[tuple[int, ...], ...]
    work: tuple[BrickWork, ...] = ()
    """Of each of its bricks, once."""
    view: str = "runtime"
    precision: str = "fp32"
    runtime: str = DEFAULT
    made_from: str | None = None
    source: str | None = None
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()


class ToMeasure(Handle):
    """A brick, or a whole model, of which no time is stored that may be used. ``layers``: what it is called in
    messages; ``estimate_s``: what measuring it may take."""

    item: Item
    key: str
    operators: tuple[str, ...]
    layers: str
    estimate_s: float
    shard: int


class Cutting(Handle):
    """``failed``: place in the list -> why that model is in none of the figures. ``reused``: stored times that are
    used; ``wanted``: what those are, so that what follows from them reads the same ones (None: none are, or it is of
    before that was kept)."""

    setting: Setting
    cuts: tuple[CutModel, ...]
    todo: tuple[ToMeasure, ...]
    failed: dict[int, str]
    reused: int
    wanted: Wanted | None = None

    def of_shard(self, shard: int) -> list[ToMeasure]:
        """What one shard is to measure."""
        return [one for one in self.todo if one.shard == shard]


def read(folder: Path) -> Cutting | None:
    """That of a run's folder; None where it was never finished."""
    try:
        return Cutting.model_validate_json((folder / FILE).read_bytes())
    except FileNotFoundError:
        return None
