"""What bounds single layers, memory or arithmetic: by their kernels, where a trace tells of these."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from inferbench_tasks.analysis.stack.base import Subject
from inferbench_tasks.analysis.stack.kernel_base import counted
from inferbench_tasks.analysis.stack.profile import Layer

#: Of a layer of which less of the kernels' time is known nothing is said.
_MOSTLY = 0.5
_WORDS = {"memory": "memory-bound", "arithmetic": "bound by arithmetic"}


def bounds_of(subject: Subject, layers: Sequence[Layer]) -> list[str | None]:
    """``memory`` or ``arithmetic`` of each of the profile's layers; None where FLOPs and bytes are not known of most of
    its kernels' time, or the machine's ceilings are not those of what it ran (``work``).

    A layer is the same in the runs whose kernels are told if it has the same name, and is the same one of that name.
    """
    kernels = subject.kernels
    if kernels is None or kernels.ceilings is None:
        return [None] * len(layers)
    known: dict[str, list[str | None]] = defaultdict(list)
    for layer, inside in kernels.by_layer():
        work, ratio = counted([each.work for each in inside])
        known[layer.name].append(work.bound(kernels.ceilings) if ratio >= _MOSTLY else None)
    place: dict[int, int] = {}
    seen: Counter[str] = Counter()
    for each in subject.profile.layers:
        place[each.order] = seen[each.name]
        seen[each.name] += 1
    return [
        known[each.name][place[each.order]] if place[each.order] < len(known[each.name]) else None
        for each in layers
    ]


def bounds_in_words(bounds: Sequence[str | None]) -> str:
    """``they are memory-bound``, where all are; else of how many what is known; "" where nothing is known of any."""
    counts = Counter(bounds)
    told = [(counts[name], words) for name, words in _WORDS.items() if counts[name]]
    if not told:
        return ""
    if len(told) == 1 and told[0][0] == len(bounds):
        return f"{'it is' if len(bounds) == 1 else 'they are'} {told[0][1]}"
    parts = [f"{count} {'is' if count == 1 else 'are'} {words}" for count, words in told]
    unknown = [f"of {counts[None]} it is not known"] if counts[None] else []
    return f"of these {', '.join([*parts, *unknown])}"
