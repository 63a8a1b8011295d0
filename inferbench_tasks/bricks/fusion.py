"""Which layers of a model a runtime executes as one, of what each executed layer is known to have come from.

For runtimes whose executed graph is no ONNX. Every layer is in exactly one group, each group runs by itself (no path
leaves it and comes back), and groups are in an order in which each has all that it takes.

1. The ONNX layers that an executed layer names are a group. A layer that several name belongs to the first of them; an
   executed layer that names nothing new is a further part of the group of the last that it names (a recurrent cell
   that is executed as several).
2. A layer that nobody names was swallowed, or costs nothing: it goes to the group that takes what it gives, if that is
   one; else to the group that it takes from, if that is one; else it is a group by itself.
3. A group whose parts have neither a tensor from one to the other nor an input in common falls apart into these; groups
   that could only run after each other are taken apart, and put together again along their tensors as far as goes.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import onnx_ir as ir

from inferbench_tasks.bricks.layer import Layer
from inferbench_tasks.bricks.sequences import INPUT

#: Layer by its position -> the group that it is in, by any number.
Groups = dict[int, int]


def fused(layers: Sequence[Layer], executed: Iterable[Sequence[str]]) -> list[list[int]]:
    """The groups, each as positions among ``layers`` (in topological order); see the module.

    ``executed``: for each executed layer, in order, the names of nodes that it came from.
    """
    takers: dict[int, set[int]] = defaultdict(set)
    for index, layer in enumerate(layers):
        for before in _before(layer):
            takers[before].add(index)
    groups = _swallowed(layers, takers, _named(layers, executed))
    groups = _connected(layers, groups)
    for group in _tangled(layers, groups):
        groups = _untangled(layers, groups, group)
    return [_inner_order(layers, members) for members in _in_order(layers, groups)]


def _before(layer: Layer) -> set[int]:
    return set(layer.needs.layers) - {INPUT}


def _named(layers: Sequence[Layer], executed: Iterable[Sequence[str]]) -> Groups:
    position = {layer.node.name: index for index, layer in enumerate(layers)}
    groups: Groups = {}
    for number, names in enumerate(executed):
        known = [position[name] for name in names if name in position]
        for index in known:
            groups.setdefault(index, number)
    return groups


def _swallowed(layers: Sequence[Layer], takers: Mapping[int, set[int]], groups: Groups) -> Groups:
    """Layers without a group get one: from the end, so that what takes them has one."""
    unnamed = free = 1 + max(groups.values(), default=-1)
    for index in reversed(range(len(layers))):
        if index in groups:
            continue
        into = {groups[taker] for taker in takers[index] if taker in groups}
        if len(into) == 1:
            groups[index] = into.pop()
    for index, layer in enumerate(layers):
        if index in groups:
            continue
        of = {groups[before] for before in _before(layer)}
        if len(of) == 1 and INPUT not in layer.needs.layers and max(of) < unnamed:
            groups[index] = of.pop()
        else:
            groups[index], free = free, free + 1
    return groups


def _connected(layers: Sequence[Layer], groups: Groups) -> Groups:
    """Each group as its parts that tensors or a common input hold together."""
    root = list(range(len(layers)))

    def find(index: int) -> int:
        while root[index] != index:
            root[index] = root[root[index]]
            index = root[index]
        return index

    first: dict[tuple[int, ir.Value], int] = {}
    for index, layer in enumerate(layers):
        for before in _before(layer):
            if groups[before] == groups[index]:
                root[find(index)] = find(before)
        for value in layer.inputs:
            other = first.setdefault((groups[index], value), index)
            root[find(index)] = find(other)
    return {index: find(index) for index in range(len(layers))}


def _edges(layers: Sequence[Layer], groups: Groups) -> dict[int, set[int]]:
    """Group -> the groups that take from it."""
    edges: dict[int, set[int]] = {group: set() for group in groups.values()}
    for index, layer in enumerate(layers):
        for before in _before(layer):
            if groups[before] != groups[index]:
                edges[groups[before]].add(groups[index])
    return edges


def _tangled(layers: Sequence[Layer], groups: Groups) -> list[int]:
    """The groups that are on a way which comes back to where it began, in order: what is left if groups without any
    before them, and then without any after them, are taken away again and again."""
    edges = _edges(layers, groups)
    back: dict[int, set[int]] = {group: set() for group in edges}
    for group, after in edges.items():
        for other in after:
            back[other].add(group)
    left = set(edges)
    for forward, backward in ((edges, back), (back, edges)):
        counts = {group: len(backward[group] & left) for group in left}
        ready = [group for group in left if counts[group] == 0]
        while ready:
            group = ready.pop()
            left.discard(group)
            for other in forward[group] & left:
                counts[other] -= 1
                if counts[other] == 0:
                    ready.append(other)
    return sorted(left)


def _untangled(layers: Sequence[Layer], groups: Groups, group: int) -> Groups:
    """One group taken apart, and put together along its tensors wherever no other way leads from one to the other."""
    members = sorted(index for index, of in groups.items() if of == group)
    start = 1 + max(groups.values())
    apart = groups | {index: start + at for at, index in enumerate(members)}
    for index in members:
        for before in sorted(_before(layers[index]) & set(members)):
            one, other = apart[before], apart[index]
            if one != other and not _another_way(_edges(layers, apart), one, other):
                apart = {at: one if of == other else of for at, of in apart.items()}
    return apart


def _another_way(edges: Mapping[int, set[int]], one: int, other: int) -> bool:
    """Whether a way leads from one to the other over a third."""
    seen, stack = {one}, [group for group in edges[one] if group != other]
    while stack:
        group = stack.pop()
        if group == other:
            return True
        if group not in seen:
            seen.add(group)
            stack += edges[group]
    return False


def _in_order(layers: Sequence[Layer], groups: Groups) -> list[list[int]]:
    """The groups' members; of those that may come next always that whose last layer is the first."""
    members: dict[int, list[int]] = defaultdict(list)
    for index in range(len(layers)):
        members[groups[index]].append(index)
    edges = _edges(layers, groups)
    counts = dict.fromkeys(edges, 0)
    for after in edges.values():
        for group in after:
            counts[group] += 1
    ready = [(members[group][-1], group) for group, count in counts.items() if count == 0]
    heapq.heapify(ready)
    ordered = []
    while ready:
        _, group = heapq.heappop(ready)
        ordered.append(members[group])
        for other in edges[group]:
            counts[other] -= 1
            if counts[other] == 0:
                heapq.heappush(ready, (members[other][-1], other))
    assert len(ordered) == len(edges)
    return ordered


def _inner_order(layers: Sequence[Layer], members: Sequence[int]) -> list[int]:
    """A group's layers depth first from its last ones: an order that is the same wherever the group stands."""
    inside = set(members)
    taken = {before for index in members for before in _before(layers[index]) & inside}
    ordered: dict[int, None] = {}
    producer: Callable[[ir.Value], ir.Node | None] = ir.Value.producer
    at = {layers[index].node: index for index in members}
    for last in (index for index in members if index not in taken):
        stack = [last]
        while stack:
            index = stack[-1]
            nodes = [producer(value) for value in layers[index].inputs]
            before = [at[node] for node in nodes if node in at and at[node] not in ordered]
            if before:
                stack.append(before[0])
            else:
                ordered[stack.pop()] = None
    return list(ordered)
