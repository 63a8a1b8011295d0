"""What PyTorch runs below a layer: the operators of ATen within each other, and oneDNN's primitives within these."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from inferbench_tasks.servers.sources.onednn import Primitive

#: A span of the library level: name, type, start_ns and end_ns in Unix time, attributes, and those ``inside`` it.
Node = dict[str, Any]
#: PyTorch's name of a type -> oneDNN's, and its bytes.
_TYPES = {
    "float": ("f32", 4), "double": ("f64", 8), "c10::Half": ("f16", 2), "c10::BFloat16": ("bf16", 2),
    "signed char": ("s8", 1), "unsigned char": ("u8", 1),
}  # fmt: skip
#: Products of matrices: which of the operands are multiplied, from which one on.
_PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}


def trees_of(events: Sequence[dict[str, Any]], base_ns: int) -> list[Node]:
    """The operators of one thread, each inside the one around it; ``events`` as ``layers_of`` sorts them."""
    roots: list[Node] = []
    around: list[tuple[float, Node]] = []
    for event in events:
        end = event["ts"] + event["dur"]
        while around and end > around[-1][0]:
            around.pop()
        start_ns = base_ns + round(event["ts"] * 1000)
        type_ = event["name"].partition("::")[2] or event["name"]
        node = {
            "name": event["name"],
            "type": type_,
            "start_ns": start_ns,
            "end_ns": start_ns + round(event["dur"] * 1000),
            "attributes": {"library": "ATen", **_product(type_, event.get("args", {}))},
            "inside": [],
        }
        (around[-1][1]["inside"] if around else roots).append(node)
        around.append((end, node))
    return roots


def place(primitives: Iterable[Primitive], roots: Sequence[Node]) -> list[Primitive]:
    """Put each primitive inside the innermost operator that its middle is in; those that are in none.

    An operator whose product a primitive calculates has that work no more: it is the primitive's.
    """
    nowhere = []
    for each in primitives:
        middle = (each.start_ns + each.end_ns) // 2
        around = holder_of(middle, roots)
        if not around:
            nowhere.append(each)
            continue
        holder = around[-1]
        if each.attributes["flops"] != 0:
            for name in ("flops", "bytes", "data_type"):
                holder["attributes"].pop(name, None)
        holder["inside"].append(
            {
                "name": each.name,
                "type": each.type,
                "start_ns": each.start_ns,
                "end_ns": each.end_ns,
                "attributes": each.attributes,
                "inside": [],
            }
        )
    return nowhere


def holder_of(moment_ns: int, nodes: Sequence[Node]) -> list[Node]:
    """The operators at a moment, the outermost first; nodes beside each other are in their order."""
    around: list[Node] = []
    while nodes:
        operators = [node for node in nodes if node["attributes"].get("library") == "ATen"]
        at = bisect_right(operators, moment_ns, key=lambda node: node["start_ns"]) - 1
        if at < 0 or operators[at]["end_ns"] < moment_ns:
            break
        around.append(operators[at])
        nodes = operators[at]["inside"]
    return around


def _product(type_: str, args: dict[str, Any]) -> dict[str, Any]:
    """FLOP (two for a multiply-add), bytes and data type of a product of matrices of known sizes; else {}."""
    dims, types = args.get("Input Dims"), args.get("Input type")
    if type_ not in _PRODUCTS or not dims or not types:
        return {}
    first = _PRODUCTS[type_]
    left, right, known = dims[first], dims[first + 1], _TYPES.get(types[first])
    if len(left) < 2 or len(right) != len(left) or left[-1] != right[-2] or known is None:
        return {}
    data_type, size = known
    given = math.prod(left[:-1]) * right[-1]
    operands = [math.prod(each) for each in dims[: first + 2]]
    return {"flops": 2 * given * left[-1], "bytes": size * (sum(operands) + given), "data_type": data_type}
