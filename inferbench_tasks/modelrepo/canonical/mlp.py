"""``mlp``: fully connected blocks with ReLU (FC in the paper), then a linear classifier."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.modelrepo.canonical.base import CLASSES, INPUT, OUTPUT, MlpModel


def input_shape(spec: MlpModel) -> tuple[int, ...]:
    return (spec.input_size,)


def macs(spec: MlpModel) -> int:
    n = spec.neurons
    return spec.input_size * n + (spec.layers - 1) * n * n + n * CLASSES


def parameters(spec: MlpModel) -> int:
    return macs(spec) + spec.layers * spec.neurons + CLASSES


def activations(spec: MlpModel) -> int:
    return spec.input_size + 2 * spec.layers * spec.neurons + CLASSES


def torch_module(spec: MlpModel) -> Any:
    from torch import nn

    blocks: list[Any] = []
    width = spec.input_size
    for _ in range(spec.layers):
        blocks += [nn.Linear(width, spec.neurons), nn.ReLU()]
        width = spec.neurons
    return nn.Sequential(*blocks, nn.Linear(width, CLASSES))


def keras_model(spec: MlpModel) -> Any:
    import keras

    value = inputs = keras.Input(input_shape(spec), name=INPUT)
    for _ in range(spec.layers):
        value = keras.layers.Dense(spec.neurons, activation="relu")(value)
    return keras.Model(inputs, keras.layers.Dense(CLASSES, name=OUTPUT)(value))
