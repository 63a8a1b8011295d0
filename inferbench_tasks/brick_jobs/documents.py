"""Models as PerfDB has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from inferbench_tasks.brick_jobs.cutting import BrickWork, CutModel
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.contracts.handles import TensorSpec

#: Sizes of free inputs without the batch, in the order of their names.
Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class MadeOf(NamedTuple):
    """One of the models that a document is of: ``CutModel.made_from``, ``source`` and ``shapes``."""

    made_from: str
    source: str
    shapes: Shapes


def shapes_text(shapes: Shapes) -> str | None:
    """As ``--shape`` takes them; None without any."""
    return ", ".join(f"{name}={'x'.join(map(str, sizes))}" for name, sizes in shapes) or None


def made_of(document: Mapping[str, Any]) -> list[MadeOf]:
    """All of them. One that was cut before sizes were kept is taken for one without free inputs."""
    of = {
        one["made_from"]: MadeOf(
            one["made_from"],
            one["source"],
            tuple((shape["input"], tuple(shape["sizes"])) for shape in one["shapes"]),
        )
        for one in document.get("sources") or ()
    }
    return [of.get(key) or MadeOf(key, key, ()) for key in document.get("made_from") or ()]


def each_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A document as that of each of its models: with ``made_from``, ``source`` and ``shapes`` of one alone. One of
    before it was kept what models are made of is as it is, and is taken for one without free inputs."""
    each: list[Mapping[str, Any]] = [
        {**(of_one(document, one.made_from) or document), **one._asdict()} for one in made_of(document)
    ]
    return each or [document]


def shapes_of(document: Mapping[str, Any]) -> set[Shapes]:
    """The sizes of free inputs that the models of a document have."""
    return {one.shapes for one in made_of(document)} or {()}


def of_source(document: Mapping[str, Any], source: str) -> list[Mapping[str, Any]]:
    """As ``of_one``, for each size at which that source was cut like this."""
    each = ((one, of_one(document, one.made_from)) for one in made_of(document) if one.source == source)
    return [{**own, "source": source, "shapes": made.shapes} for made, own in each if own is not None]


def of_one(document: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    """A document of several models as that of the one that was made from ``key``, with its own inputs and outputs; None
    where it does not say which they are."""
    tensors = (document.get("tensors") or {}).get(key)
    if tensors is None and document.get("made_from") == [key]:  # as they were kept before, of the last model
        tensors = {name: document.get(name) or [] for name in ("inputs", "outputs")}
    return None if tensors is None else {**document, "made_from": key, **tensors}


def cut_of(at: int, document: Mapping[str, Any], known: Mapping[str, Result]) -> CutModel:
    """A model as PerfDB has it; ``operators`` are those of its bricks in order, where these are known."""
    parts = tuple(document["parts"])
    whole = known.get(document["whole"])
    operators = tuple(whole.operators) if whole else (document["whole"],)
    of = {one["identity"]: tuple(one["operators"]) for one in document.get("work") or ()}
    of |= {part: known[part].operators for part in parts if part in known}
    if all(part in of for part in parts):
        operators = tuple(operator for part in parts for operator in of[part])
    return CutModel(
        at=at, name=document.get("model") or "", copies=1, task=document.get("task"),
        digest=document.get("digest") or "", batch_size=document.get("batch_size") or 1,
        granularity=document["granularity"], layers=document.get("layers") or 0, operators=operators,
        whole=document["whole"], parts=parts, needs=tuple(tuple(before) for before in document["needs"]),
        work=tuple(BrickWork.model_validate(one) for one in document.get("work") or ()),
        view=document.get("view") or "runtime", precision=document.get("precision") or "fp32",
        runtime=document.get("runtime") or DEFAULT,
        # Of a document as the database has it these are several models'.
        made_from=made if isinstance(made := document.get("made_from"), str) else None,
        source=document.get("source"), shapes=tuple(document.get("shapes") or ()),
        inputs=tuple(TensorSpec.model_validate(one) for one in document.get("inputs") or ()),
        outputs=tuple(TensorSpec.model_validate(one) for one in document.get("outputs") or ()),
    )  # fmt: skip
