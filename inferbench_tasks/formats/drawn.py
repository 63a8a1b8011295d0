"""ONNX's operators that draw random numbers."""

from __future__ import annotations

DRAWN = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
