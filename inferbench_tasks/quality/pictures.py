"""PSNR and SSIM: how near pictures are to those that are wanted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.targets import MeanMeasure, Parts, finite, the_output

#: What equal pictures have, of which the logarithm is infinite, and the most that any has.
MOST_DB = 100.0
#: Of SSIM's window: its reach in pixels (11 x 11), its standard deviation.
_REACH, _SIGMA = 5, 1.5
_K1, _K2 = 0.01, 0.03
#: A picture from 0 to 1 may be beyond its scale by so much, and by more in this share of its pixels.
_BEYOND, _MOST_OUTSIDE = 0.05, 0.05


class _Pictures(MeanMeasure):
    """``smallest``: pixels of a side."""

    target = "pictures"
    smallest = 1

    def unfit(self, answered: Answered, targets: NDArray[Any]) -> str | None:
        if targets.ndim != 4 or (targets.dtype != np.uint8 and targets.dtype.kind != "f"):
            shape = f"{targets.dtype} of shape {targets.shape}"
            return f"targets must be n x channels x height x width, uint8 or floats, not {shape}"
        if targets.dtype.kind == "f" and not (
            np.isfinite(targets).all() and 0 <= targets.min() <= targets.max() <= 1
        ):
            return "targets that are floats must be from 0 to 1"
        if min(targets.shape[2:]) < self.smallest or not targets.shape[1]:
            height, width = targets.shape[2:]
            return f"pictures of {width} x {height} are smaller than {self.smallest} x {self.smallest}"
        output = _pictures(answered, targets)
        if output is None:
            return f"no output of numbers has the targets' shape {list(targets.shape[1:])}"
        return output if isinstance(output, str) else finite(output) or _other_scale(output, targets)

    def pairs(self, answered: Answered) -> tuple[NDArray[Any], NDArray[Any], float]:
        """Answers, targets, and the largest value that a pixel can have."""
        targets = answered.targets[self.target]
        output = _pictures(answered, targets)
        assert isinstance(output, np.ndarray)
        return output, targets, 255.0 if targets.dtype == np.uint8 else 1.0


class Psnr(_Pictures):
    """Of each picture over all its channels."""

    title = "Peak signal-to-noise ratio"
    formula = "mean over pictures of 10 log10(peak^2 / mean squared error), at most 100 dB; peak: 255 of uint8, else 1"

    def parts(self, answered: Answered) -> Parts:
        parts = []
        output, targets, peak = self.pairs(answered)
        for one, other in zip(output, targets, strict=True):
            error = float(np.mean((one.astype(np.float64) - other) ** 2))
            value = 10 * np.log10(peak**2 / error) if error else MOST_DB
            parts.append(np.array([min(MOST_DB, value)]))
        return parts


class Ssim(_Pictures):
    """Z. Wang et al., IEEE Transactions on Image Processing 13(4), 2004: a Gaussian window, where it fits whole."""

    title = "Structural similarity"
    formula = (
        "mean over pictures, channels and pixels of (2 ma mb + c1)(2 sab + c2) / ((ma^2 + mb^2 + c1)(sa + sb + c2)), "
        "window 11 x 11 of sigma 1.5, c1 = (0.01 peak)^2, c2 = (0.03 peak)^2"
    )
    smallest = 2 * _REACH + 1

    def parts(self, answered: Answered) -> Parts:
        output, targets, peak = self.pairs(answered)
        return [np.array([_ssim(one, other, peak)]) for one, other in zip(output, targets, strict=True)]


def _ssim(one: NDArray[Any], other: NDArray[Any], peak: float) -> float:
    from scipy.ndimage import gaussian_filter

    def mean(array: NDArray[np.float64]) -> NDArray[np.float64]:
        smooth = gaussian_filter(array, (0, _SIGMA, _SIGMA), radius=(0, _REACH, _REACH))
        inner: NDArray[np.float64] = smooth[:, _REACH:-_REACH, _REACH:-_REACH]
        return inner

    a, b = one.astype(np.float64), other.astype(np.float64)
    mean_a, mean_b = mean(a), mean(b)
    var_a, var_b = mean(a * a) - mean_a**2, mean(b * b) - mean_b**2
    both = mean(a * b) - mean_a * mean_b
    c1, c2 = (_K1 * peak) ** 2, (_K2 * peak) ** 2
    above = (2 * mean_a * mean_b + c1) * (2 * both + c2)
    return float((above / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))).mean())


def _pictures(answered: Answered, targets: NDArray[Any]) -> NDArray[Any] | str | None:
    return the_output(answered, lambda output: output.dtype.kind in "fiu" and output.shape == targets.shape)


def _other_scale(output: NDArray[Any], targets: NDArray[Any]) -> str | None:
    """Why answers are on another scale than the targets, which no figure would tell; None if they are not."""
    if targets.dtype == np.uint8:
        small = output.dtype.kind == "f" and np.abs(output).max() <= 1 < targets.max()
        return "the answers lie within -1 and 1, the targets are uint8 from 0 to 255" if small else None
    if output.dtype.kind != "f":
        return f"the answers are whole numbers ({output.dtype}), the targets floats from 0 to 1"
    outside = float(((output < -_BEYOND) | (output > 1 + _BEYOND)).mean())
    if outside > _MOST_OUTSIDE:
        return f"{outside:.0%} of the answers' pixels lie outside of 0 to 1, where the targets are"
    return None
