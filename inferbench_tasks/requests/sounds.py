"""Made-up sounds: voices of seeded pitch with overtones that come and go, and a little noise. No recordings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Samples per second.
RATE_HZ = 16_000
_OVERTONES = 8


def voices(count: int, length: int, rng: np.random.Generator, rate_hz: int = RATE_HZ) -> NDArray[np.float32]:
    """``count x length`` waveforms within -1 to 1: a pitch of 80 to 400 Hz, louder and softer 2 to 6 times a second."""
    seconds = np.arange(length) / rate_hz
    pitch, swell = rng.uniform(80, 400, (count, 1)), rng.uniform(2, 6, (count, 1))
    waves = np.zeros((count, length))
    for overtone in range(1, _OVERTONES + 1):
        phase = rng.uniform(0, 2 * np.pi, (count, 1))
        waves += np.sin(2 * np.pi * overtone * pitch * seconds + phase) / overtone
    waves *= 0.5 + 0.5 * np.sin(2 * np.pi * swell * seconds)
    waves += 0.02 * rng.standard_normal((count, length))
    return np.asarray(0.3 * waves / np.abs(waves).max(axis=1, keepdims=True), np.float32)


def log_power(sounds: NDArray[np.float32], window: int = 512, hop: int = 256) -> NDArray[np.float32]:
    """``count x length`` -> ``count x frames x (window / 2 + 1)``: log10 of the power in each Hann window."""
    frames = np.lib.stride_tricks.sliding_window_view(sounds, window, axis=1)[:, ::hop]
    power = np.abs(np.fft.rfft(frames * np.hanning(window), axis=2)) ** 2
    return np.asarray(np.log10(np.maximum(power, 1e-12)), np.float32)
