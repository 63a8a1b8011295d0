"""What answers are set against where it is no class: a number, a picture, a mask, a text or boxes for each sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

#: Kind -> what its array is, first axis = samples. In an ``.npz`` it is called ``target_`` and its kind.
TARGETS: Mapping[str, str] = {
    "numbers": "a number for each sample: n",
    "pictures": "n x channels x height x width; uint8, or floats from 0 to 1",
    "masks": "whole numbers n x height x width, a class for each pixel; 255 and below 0: in no figure",
    "texts": "n texts, or n x k where several are right; empty ones beside others fill up",
    "boxes": "n x m x 6: class, x1, y1, x2, y2, 1 for a crowd and else 0; class -1 fills up; or n x m x 8: also the "
    "object's area, and that of one pixel of these boxes, both in the picture's own pixels",
}
#: What stands before a kind in an ``.npz``.
PREFIX = "target_"

Kind: TypeAlias = str
