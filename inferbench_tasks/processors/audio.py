"""WAV files to a float tensor: decode, mix to one channel, resample, cut or pad."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from inferbench_tasks.contracts.arrays import Array
from inferbench_tasks.errors import InputError

MAX_SECONDS = 3600


class Audio:
    """PCM WAV (8, 16 or 32 bit) -> ``n x samples`` float32 in [-1, 1] at ``rate_hz``."""

    kind: ClassVar[str] = "audio"

    def __init__(self, rate_hz: int = 16_000, samples: int = 16_000) -> None:
        if rate_hz < 1 or samples < 1:
            raise InputError("processors.audio: rate_hz and samples must be >= 1")
        self.rate_hz, self.samples = rate_hz, samples

    def __call__(self, files: Sequence[bytes]) -> Array:
        return np.stack([self._decode(data, at) for at, data in enumerate(files)])

    def _decode(self, data: bytes, at: int) -> Array:
        try:
            with wave.open(io.BytesIO(data)) as file:
                width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
                if file.getnframes() > MAX_SECONDS * rate:
                    raise InputError(f"Sound {at} is longer than {MAX_SECONDS} s")
                raw = file.readframes(file.getnframes())
        except (wave.Error, EOFError) as error:
            raise InputError(f"Sound {at} can't be decoded: {error}; allowed: PCM WAV") from error
        if width not in (1, 2, 4):
            raise InputError(f"Sound {at} has {8 * width} bits per sample; allowed: 8, 16, 32")
        values: Array = np.frombuffer(raw, dtype={1: "u1", 2: "<i2", 4: "<i4"}[width]).astype(np.float32)
        values = (values - 128) / 128 if width == 1 else values / float(2 ** (8 * width - 1))
        mono: Array = values.reshape(-1, channels).mean(1)
        if rate != self.rate_hz and len(mono):
            from scipy.signal import resample_poly

            common = int(np.gcd(rate, self.rate_hz))
            mono = resample_poly(mono, self.rate_hz // common, rate // common).astype(np.float32)
        fitted = np.zeros(self.samples, dtype=np.float32)
        fitted[: min(len(mono), self.samples)] = mono[: self.samples]
        return fitted
