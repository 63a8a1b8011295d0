"""``cnn``: residual blocks (two 3 x 3 convolutions and a shortcut), then pooling and a classifier.

Pooled to a coarse grid and not to one value: where a stroke is tells digits apart.
"""

from __future__ import annotations

from typing import Any

from inferbench_tasks.modelrepo.canonical.base import CLASSES, INPUT, OUTPUT, CnnModel

COLOURS = 3
KERNEL = 3
GRID = 4


def _window(spec: CnnModel) -> int:
    return spec.image_size // GRID


def _features(spec: CnnModel) -> int:
    """What the classifier reads; the grid has a row more where the window doesn't divide the image."""
    return spec.channels * int(spec.image_size // _window(spec)) ** 2


def input_shape(spec: CnnModel) -> tuple[int, ...]:
    return (COLOURS, spec.image_size, spec.image_size)


def macs(spec: CnnModel) -> int:
    c, pixels, k = spec.channels, spec.image_size**2, KERNEL**2
    return pixels * k * (COLOURS * c + 2 * spec.layers * c * c) + _features(spec) * CLASSES


def parameters(spec: CnnModel) -> int:
    c, k = spec.channels, KERNEL**2
    norms = (1 + 2 * spec.layers) * 2 * c
    return k * (COLOURS * c + 2 * spec.layers * c * c) + norms + _features(spec) * CLASSES + CLASSES


def activations(spec: CnnModel) -> int:
    return spec.image_size**2 * (COLOURS + spec.channels * (3 + 7 * spec.layers))


def torch_module(spec: CnnModel) -> Any:
    from torch import Tensor, nn

    def conv(inputs: int) -> list[Any]:
        same = KERNEL // 2
        return [
            nn.Conv2d(inputs, spec.channels, KERNEL, padding=same, bias=False),
            nn.BatchNorm2d(spec.channels),
        ]

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(*conv(spec.channels), nn.ReLU(), *conv(spec.channels))
            self.activation = nn.ReLU()

        def forward(self, value: Tensor) -> Any:
            return self.activation(self.body(value) + value)

    return nn.Sequential(
        *conv(COLOURS),
        nn.ReLU(),
        *(Residual() for _ in range(spec.layers)),
        nn.AvgPool2d(_window(spec)),
        nn.Flatten(),
        nn.Linear(_features(spec), CLASSES),
    )


def keras_model(spec: CnnModel) -> Any:
    """Takes channels first, as all our image models do; TensorFlow's CPU kernels want them last."""
    import keras
    from keras import layers

    def conv(value: Any) -> Any:
        value = layers.Conv2D(spec.channels, KERNEL, padding="same", use_bias=False)(value)
        # PyTorch's momentum; with Keras' own 0.99 a short training ends before the statistics are right.
        return layers.BatchNormalization(momentum=0.9)(value)

    inputs = keras.Input(input_shape(spec), name=INPUT)
    value = layers.ReLU()(conv(layers.Permute((2, 3, 1))(inputs)))
    for _ in range(spec.layers):
        body = conv(layers.ReLU()(conv(value)))
        value = layers.ReLU()(layers.Add()([body, value]))
    value = layers.Flatten()(layers.AveragePooling2D(_window(spec))(value))
    return keras.Model(inputs, layers.Dense(CLASSES, name=OUTPUT)(value))
