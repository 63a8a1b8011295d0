"""The same layer in two profiles, by sequence, kind and shape; and which layers stand for one of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from inferbench_tasks.analysis.stack.kinds import ABSORBED, LAYOUT
from inferbench_tasks.analysis.stack.profile import Layer
from inferbench_tasks.errors import InputError

#: Layers of one model that are matched at most: the work is the product of both numbers.
MOST_LAYERS = 4_000


@dataclass(frozen=True)
class Group:
    """Layers that do the same in both; one side is empty where the other has nothing like it.

    Of several layers on a side the other side's one does the work of all, as far as sequence, kind and shape can tell.
    """

    left: tuple[Layer, ...]
    right: tuple[Layer, ...]

    @property
    def what(self) -> str:
        """``same``, ``other shape``, ``only left`` or right, ``fused left`` (one there, several here) or right."""
        if not self.right:
            return "only left"
        if not self.left:
            return "only right"
        if len(self.left) == len(self.right):
            return "same" if _alike(self.left[0].shape, self.right[0].shape) else "other shape"
        return "fused left" if len(self.left) < len(self.right) else "fused right"

    @property
    def first(self) -> Layer:
        """The layer that names it."""
        return (self.left or self.right)[0]


def match(left: Sequence[Layer], right: Sequence[Layer]) -> list[Group]:
    """Every layer of both in exactly one group, in the order of both.

    The longest common subsequence of layers of one kind whose shapes do not contradict each other (or that have one
    name and type: runtimes pad shapes), where known and equal shapes, types and names weigh more (Needleman and Wunsch,
    1970, without penalty for gaps). InputError beyond ``MOST_LAYERS``.
    """
    for side in (left, right):
        if len(side) > MOST_LAYERS:
            raise InputError(f"{len(side):,} layers are more than can be matched ({MOST_LAYERS:,})")
    return _moved(_grouped(_aligned(left, right)))


def _score(left: Layer, right: Layer) -> int:
    """0 where they can't be the same."""
    if left.kind != right.kind:
        return 0
    alike = _alike(left.shape, right.shape)
    if not alike and (left.type, left.name) != (right.type, right.name):
        return 0
    score = (1 if left.kind == LAYOUT else 8) + (left.type == right.type) + 2 * (left.name == right.name)
    return score + 2 * (alike and left.shape is not None and right.shape is not None)


def _alike(left: tuple[int, ...] | None, right: tuple[int, ...] | None) -> bool:
    """Whether they can be one shape, as far as it is known; -1 is any size."""
    if left is None or right is None:
        return True
    return len(left) == len(right) and all(a == b or -1 in (a, b) for a, b in zip(left, right, strict=True))


def _aligned(left: Sequence[Layer], right: Sequence[Layer]) -> list[tuple[Layer | None, Layer | None]]:
    """Both in their order, what is the same side by side."""
    rows, columns = len(left), len(right)
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(rows - 1, -1, -1):
        below, here = best[row + 1], best[row]
        for column in range(columns - 1, -1, -1):
            score = _score(left[row], right[column])
            both = below[column + 1] + score if score else 0
            here[column] = max(both, below[column], here[column + 1])
    pairs: list[tuple[Layer | None, Layer | None]] = []
    row = column = 0
    while row < rows and column < columns:
        score = _score(left[row], right[column])
        if score and best[row][column] == best[row + 1][column + 1] + score:
            pairs.append((left[row], right[column]))
            row, column = row + 1, column + 1
        elif best[row][column] == best[row + 1][column]:
            pairs.append((left[row], None))
            row += 1
        else:
            pairs.append((None, right[column]))
            column += 1
    return [*pairs, *((layer, None) for layer in left[row:]), *((None, layer) for layer in right[column:])]


def _grouped(pairs: Sequence[tuple[Layer | None, Layer | None]]) -> list[Group]:
    """The pairs, and what lies between them on either side: see ``_between``."""
    groups: list[Group] = []
    lefts: list[Layer] = []
    rights: list[Layer] = []
    for left, right in [*pairs, (None, None)]:
        if (left is not None and right is not None) or left is right:
            groups += _between(groups, lefts, rights)
            lefts, rights = [], []
            groups += [Group((left,), (right,))] if left is not None and right is not None else []
        elif left is not None:
            lefts.append(left)
        elif right is not None:
            rights.append(right)
    return groups


def _between(before: list[Group], lefts: list[Layer], rights: list[Layer]) -> list[Group]:
    """Groups of what either side has between two pairs; ``before`` ends with the first of these.

    Where one side has nothing, what the other has and runtimes compute with the layer before goes to that pair. Where
    one side has one layer and the other several that end with what it gives, they are one (LayerNormalization and its
    parts).
    """
    one, other = ([layer for layer in side if layer.kind != LAYOUT] for side in (lefts, rights))
    groups: list[Group] = []
    pair = before[-1] if before else Group((), ())
    if bool(one) != bool(other) and pair.left and pair.right and pair.first.kind != LAYOUT:
        more = _absorbable(one, pair.right[0]), _absorbable(other, pair.left[0])
        before[-1] = Group((*pair.left, *more[0]), (*pair.right, *more[1]))
        taken = [*more[0], *more[1]]
    elif min(len(one), len(other)) == 1 < max(len(one), len(other)) and _alike(
        one[-1].shape, other[-1].shape
    ):
        groups.append(Group(tuple(one), tuple(other)))
        taken = [*one, *other]
    else:
        taken = []
    groups += [Group((layer,), ()) for layer in lefts if layer not in taken]
    return groups + [Group((), (layer,)) for layer in rights if layer not in taken]


def _absorbable(layers: Sequence[Layer], other: Layer) -> list[Layer]:
    """The first of these that could be computed with the layer before: they give what the other side's one gives."""
    return list(takewhile(lambda layer: layer.kind in ABSORBED and _alike(layer.shape, other.shape), layers))


def _moved(groups: Sequence[Group]) -> list[Group]:
    """Changes of layout that each side has at another place are one: where runtimes put them is of no account."""
    rights = [group.right[0] for group in groups if not group.left and group.right[0].kind == LAYOUT]
    made = []
    for group in groups:
        if not group.right and group.left[0].kind == LAYOUT:
            (layer,) = group.left
            other = next(
                (right for right in rights if right.type == layer.type and _score(layer, right)), None
            )
            if other is not None:
                rights.remove(other)
                group = Group((layer,), (other,))
        made.append(group)
    paired = [group.right[0] for group in made if group.left and group.right]
    return [group for group in made if group.left or not any(group.right[0] is right for right in paired)]
