"""What a trace lacks of what it should tell: a layer without a span must not pass for one that took nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def samplings(each: Iterable[Mapping[str, int]]) -> dict[str, int] | None:
    """Of all servers together {runs, left_out, dropped, lost}, as a source tells it of one (``servers.sources.base``);
    None where no server was sampled."""
    rows = list(each)
    names = ("runs", "left_out", "dropped", "lost")
    # Not every source bounds what it keeps.
    return {name: sum(row.get(name, 0) for row in rows) for name in names} if rows else None


def in_no_layer(each: Iterable[Mapping[str, int]]) -> dict[str, int] | None:
    """Of all servers together {primitives, ns}: what a library ran in none of the operators that the runtime told of;
    and {on_gpu, on_gpu_ns} where a GPU did anything for none of them. None where there was none of it."""
    rows = list(each)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: sum(row.get(name, 0) for row in rows) for name in names} or None


def untold_in_words(trace: Mapping[str, Any]) -> list[str]:
    """Of each level that was asked for and could not be told why not; in a line, for lists."""
    return [
        f"level {level} is not told: {why.splitlines()[0].rstrip('.')}"
        for level, why in (trace.get("untold") or {}).items()
    ]


def missing_in_words(trace: Mapping[str, Any]) -> str:
    """What a trace lacks; empty where it is whole. ``trace``: what a result says of it.

    Of a share of a load what the server kept is told with its requests (``share``).
    """
    words = [f"Its spans were not stored: {unstored}"] if (unstored := trace.get("unstored")) else []
    words += [f"Its {each}." for each in untold_in_words(trace)]
    if (lost := trace.get("lost")) and trace.get("one_in") is None:
        why = "; ".join(trace.get("why_lost") or ())
        words.append(
            f"The server's instruments told nothing of {lost:,} runs or requests{': ' if why else ''}{why}."
        )
    sampling = trace.get("sampling") or {}
    if left_out := sampling.get("left_out"):
        least = f", {sampling['lost']:,} that the kernel told of" if sampling["lost"] else ""
        words.append(
            f"{left_out:,} of {sampling['runs']:,} sampled runs lost samples{least}: they are in no share of what "
            "layers ran."
        )
    if dropped := sampling.get("dropped"):
        words.append(
            f"Of {dropped:,} of {sampling['runs']:,} sampled runs the server dropped the samples, having no room for "
            "so many: they are in no share of what layers ran."
        )
    outside = trace.get("outside") or {}
    if outside.get("primitives"):
        words.append(
            f"oneDNN ran {outside['primitives']:,} primitives, {outside['ns'] / 1e6:.4g} ms in all, in no operator "
            "that PyTorch told of: they are in no layer and are no kernels."
        )
    if outside.get("on_gpu"):
        words.append(
            f"The GPU ran {outside['on_gpu']:,} kernels, copies and sets of memory, {outside['on_gpu_ns'] / 1e6:.4g} "
            "ms in all, for no operator that the runtime told of: they are in no layer, and are none of its kernels."
        )
    if unseen := trace.get("unseen"):
        words.append(f"Monitors did not see all of it: {unseen}.")
    return " ".join(words)
