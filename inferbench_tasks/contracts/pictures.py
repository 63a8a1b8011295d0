"""Tensors that are pictures: the order of their axes, and the settings by which a file of one becomes such a tensor."""

from __future__ import annotations

from typing import Any, Literal


def axes_of(shape: tuple[int, ...]) -> Literal["nchw", "nhwc"] | None:
    """Of a shape without the batch: colours (1 or 3) first, or last; None of what has no such axis, or not three."""
    if len(shape) != 3:
        return None
    if shape[0] in (1, 3):
        return "nchw"
    return "nhwc" if shape[-1] in (1, 3) else None


def image_settings(
    shape: tuple[int, ...], pixels: tuple[float, float], colour_order: str
) -> dict[str, Any] | None:
    """The settings of the processor ``image`` that makes a tensor of that shape; None where it is no picture.

    ``pixels``, ``colour_order``: see ``ModelSource``.
    """
    layout = axes_of(shape)
    if layout is None or -1 in shape:
        return None
    channels, *size = shape if layout == "nchw" else (shape[-1], *shape[:2])
    return {
        "size": tuple(size),
        "mean": pixels[0],
        "std": pixels[1],
        "channels": channels,
        "layout": layout,
        "colour_order": colour_order,
    }
