"""What one tensor was in the recorded run, and values like it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.bricks.masks import has_mask, masked

#: Ranges are told apart by powers of this, shares by this part: as coarse as the time of an operator is.
RANGE_BASE, SHARE_STEP = 4.0, 1 / 16


@dataclass(frozen=True)
class Spread:
    """The values of a float tensor. ``low`` to ``std`` are over those that are neither 0, masked nor infinite.

    ``zero_ratio``: the share of zeros among the values that are not masked. ``mask``: the masked positions, as packed
    bits of the flat tensor, empty where nothing is; ``masked``: the median there (-inf for most of them).
    """

    low: float
    high: float
    mean: float
    std: float
    zero_ratio: float
    mask: bytes = b""
    masked: float = 0.0

    def digest_material(self) -> list[Any]:
        """What of it counts as the same input: the mask exactly, range and zeros coarsely."""
        mask = hashlib.sha256(self.mask).hexdigest() if self.mask else ""
        masked = _power(self.masked) if self.mask else 0
        return [_power(self.low), _power(self.high), round(self.zero_ratio / SHARE_STEP), mask, masked]


@dataclass(frozen=True)
class Record:
    """A tensor of the recorded run. ``dtype`` is numpy's; ``content`` of what is no float, else ``spread``.

    ``computed``: its integers are a quantised model's activations, or sums of their products: which ones they are makes
    no difference to what is done with them.
    """

    shape: tuple[int, ...]
    dtype: str
    content: NDArray[Any] | None = None
    spread: Spread | None = None
    computed: bool = False

    def content_digest(self) -> str:
        """SHA-256 of an integer, boolean or text tensor: one that has ``content``."""
        assert self.content is not None
        return digest(self.content)

    def values_like(self, rng: np.random.Generator) -> NDArray[Any]:
        """The recorded values, or for floats noise of their range and spread, with their mask and share of zeros."""
        if self.content is not None:
            return self.content
        assert self.spread is not None
        spread = self.spread
        values = rng.normal(spread.mean, spread.std, self.shape).clip(spread.low, spread.high)
        if spread.zero_ratio:
            values[rng.random(self.shape) < spread.zero_ratio] = 0.0
        if spread.mask:
            bits = np.frombuffer(spread.mask, np.uint8)
            values[np.unpackbits(bits, count=values.size).astype(bool).reshape(self.shape)] = spread.masked
        return values.astype(self.dtype)


def record_of(array: NDArray[Any], products: bool = False) -> Record:
    """The record of a tensor of one run; ``products``: whether its integers are sums of products."""
    floats = array.dtype.kind == "f"
    return Record(
        tuple(array.shape),
        array.dtype.name,
        content=None if floats else array,
        spread=_spread(array) if floats else None,
        computed=array.dtype.kind in "iu" and (products or array.dtype.itemsize == 1),
    )


def digest(array: NDArray[Any]) -> str:
    """SHA-256 over an array's values; texts count by their letters."""
    if array.dtype.kind in "OUS":
        return hashlib.sha256("\0".join(map(str, array.reshape(-1).tolist())).encode()).hexdigest()
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(np.ascontiguousarray(little).tobytes()).hexdigest()


def _spread(array: NDArray[Any]) -> Spread:
    flat = array.reshape(-1)
    if flat.dtype == np.float16:
        flat = flat.astype(np.float32)
    mask, masks = b"", 0.0
    if has_mask(flat):
        positions = masked(flat)
        if positions.any():
            mask, masks = (
                np.packbits(positions).tobytes(),
                float(np.median(flat[positions].astype(np.float64))),
            )
        flat = flat[~positions & np.isfinite(flat)]
    nonzero = flat[flat != 0]
    if not nonzero.size:
        return Spread(0.0, 0.0, 0.0, 0.0, float(flat.size > 0), mask, masks)
    return Spread(
        float(nonzero.min()),
        float(nonzero.max()),
        float(nonzero.mean(dtype=np.float64)),
        float(nonzero.std(dtype=np.float64)),
        1 - nonzero.size / flat.size,
        mask,
        masks,
    )


def _power(value: float) -> int:
    """The signed power of ``RANGE_BASE`` next to a value, counted so that it is 0 for 0 alone."""
    if value == 0 or math.isnan(value):
        return 0
    exponent = 64 if math.isinf(value) else round(math.log(abs(value), RANGE_BASE))
    return int(math.copysign(max(exponent + 32, 1), value))
