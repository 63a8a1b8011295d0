"""What a difference between two stacks says, in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from inferbench_tasks.analysis.stack.difference import BETWEEN, Difference, Row
from inferbench_tasks.analysis.stack.profile import Profile
from inferbench_tasks.contracts.verdict import VALID

#: What may differ beside the stack, and how it is called.
_SETTINGS = {
    "model": "model",
    "precision": "precision",
    "batch_size": "batch size",
    "device": "device",
    "cores": "cores",
    "threads": "threads",
    "instances": "instances",
    "batching": "batching",
    "engine_settings": "settings of the engine",
}


def sentences(found: Difference) -> list[str]:
    """How far apart the two are, what makes most of it, and what was fused on which side."""
    left, right = found.left, found.right
    times = f"{left.framework_ms:.4g} ms by {left.label}, {right.framework_ms:.4g} ms by {right.label}"
    interval = "" if found.ci95 is None else f", 95% {found.ci95[0]:.3g} to {found.ci95[1]:.3g}"
    how = ":" if found.one_way else " in the mean of its rounds; by their geometric mean"
    first = f"A run takes {times}{how} {found.ratio:.3g} times as long{interval}."
    if found.ci95 is None:
        rounds = min(len(side.framework_ms_by_round) for side in (left, right))
        first += " One round has no interval." if rounds < 2 else " Its rounds are all alike: no interval."
        if rounds < 2 and found.one_way and found.difference_ms:
            first += " Whether another one would show the same is not decided."
    elif found.ci95[0] <= 1 <= found.ci95[1]:
        return [first, "No difference is shown: the interval of the ratio has 1 in it.", *_fused(found)]
    return [first, *_makers(found), *_fused(found)]


def valid(profile: Profile) -> bool:
    """Whether the figures of its run count."""
    return str(profile.about.get("verdict") or VALID) == str(VALID)


def not_valid(found: Difference) -> list[str]:
    """Runs whose own figures don't count: what spoilt these may have met the requests that were traced."""
    verdicts = {side.run_id: side.about["verdict"] for side in (found.left, found.right) if not valid(side)}
    return [f"{run} is {verdict}." for run, verdict in verdicts.items()]


def unlike(found: Difference) -> list[str]:
    """What else differs, so that the difference may not be the stack's."""
    left, right = found.left.about, found.right.about
    names = list(_SETTINGS)
    if left.get("backend") == right.get("backend"):  # of two runtimes the formats are what makes them two
        names.insert(1, "format")
    texts = [
        f"Not the same in both: {_SETTINGS.get(name, name)}, {_shown(left.get(name))} and {_shown(right.get(name))}."
        for name in names
        if (left.get(name) or None) != (right.get(name) or None)
    ]
    sources = left.get("source"), right.get("source")
    if None not in sources and sources[0] != sources[1] and left.get("model") == right.get("model"):
        texts.append(f"Not the same in both: content of the model, {sources[0]:.12} and {sources[1]:.12}.")
    return [*texts, *_left_out(found)]


def _shown(value: Any) -> str:
    """A setting for people; of several by their names."""
    if isinstance(value, Mapping):
        return " ".join(f"{name}={each}" for name, each in sorted(value.items())) or "none"
    return "none" if value is None else str(value)


def _left_out(found: Difference) -> list[str]:
    """That one side's means have runs in them such as are left out on the other."""
    whole, half = (found.left, found.right) if found.left.means else (found.right, found.left)
    if not whole.means or half.means or not half.left_out:
        return []
    return [
        f"Times of {whole.label} are means of all its {whole.runs} runs, for it tells no other; of {half.label} the "
        f"{half.left_out} of {half.runs} that differ most are left out. What disturbed a single run is in the former "
        "alone."
    ]


def _makers(found: Difference) -> list[str]:
    """The row that makes the largest part of the difference, and what is against it where that is more than all."""
    size = found.difference_ms
    if not found.one_way:
        return ["No difference is shown: by one of the two means the one is slower, by the other it is not."]
    if not size:
        return ["No difference is shown: both take the same time."]
    rows = sorted(found.rows, key=lambda row: row.difference_ms * math.copysign(1, size))
    most, least = rows[-1], rows[0]
    share = most.difference_ms / size
    told = f"{_told(most, found)} ({share:.0%} of the difference{_doubt(most)})"
    # Where one row is all of it, rounding may have it be a hair more; only what has the other sign is against it.
    if share > 1 and least.difference_ms * size < 0:
        return [f"More than all of it: {told}; the other way: {_told(least, found)}."]
    return [f"{'Most' if share > 0.5 else 'The largest part'} of it: {told}."]


def _told(row: Row, found: Difference) -> str:
    return f"{_named(row, found)}, {row.difference_ms:+.4g} ms"


def _doubt(row: Row) -> str:
    """What makes most of a difference in the means may differ by chance alone, by its own rounds."""
    if row.ratio is not None and not row.one_way:
        return "; not decided: by one of its two means it is more, by the other less"
    if row.ci95 is None or not row.ci95[0] <= 1 <= row.ci95[1]:
        return ""
    return f"; not decided: its own ratio's interval, {row.ci95[0]:.3g} to {row.ci95[1]:.3g}, has 1 in it"


def _named(row: Row, found: Difference) -> str:
    """The layers of a row, and how they differ."""
    left, right = " + ".join(row.left), " + ".join(row.right)
    if row.what == BETWEEN:
        return "the runtime's own work between layers"
    if row.what == "only left":
        return f"{left} ({row.kind}), which {found.right.label} does not run"
    if row.what == "only right":
        return f"{right} ({row.kind}), which {found.left.label} does not run"
    if row.what in ("same", "other shape"):
        names = left if left == right else f"{left} and {right}"
        other = ", of another shape" if row.what == "other shape" else ""
        return f"{names} ({row.kind}{other})" + (
            f", {row.ratio:.3g} times as long" if row.ratio is not None and row.one_way else ""
        )
    one, several = (left, right) if row.what == "fused left" else (right, left)
    side = found.left if row.what == "fused left" else found.right
    return f"{several}, which {side.label} runs as one layer, {one}"


def _fused(found: Difference) -> list[str]:
    """What fusion removed: layers of one side that are part of a layer on the other."""
    words = []
    for what, side in (("fused left", found.left), ("fused right", found.right)):
        rows = [row for row in found.rows if row.what == what]
        if rows:
            removed = sum(abs(len(row.left) - len(row.right)) for row in rows)
            words.append(f"{side.label} runs {removed} layers less, in {len(rows)} fused ones.")
    return words
