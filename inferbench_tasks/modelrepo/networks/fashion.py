"""A small CNN for 28 x 28 grey images."""

from __future__ import annotations

from typing import Any


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 1 x 28 x 28`` -> 10 scores, in Keras too."""
    if framework == "tensorflow":
        return _keras()
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, 32, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def _keras() -> Any:
    """Takes channels first, as all our image models do; TensorFlow's CPU kernels want them last."""
    import keras
    from keras import layers

    inputs = keras.Input((1, 28, 28), name="input")
    value = layers.Permute((2, 3, 1))(inputs)
    for channels, kernel in ((32, 5), (64, 3)):
        value = layers.Conv2D(channels, kernel, strides=2, padding="same", activation="relu")(value)
    value = layers.Dense(128, activation="relu")(layers.Flatten()(value))
    return keras.Model(inputs, layers.Dense(10, name="scores")(value))
