"""``rnn``: stacked LSTM layers; a linear classifier reads the last step."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.modelrepo.canonical.base import CLASSES, INPUT, OUTPUT, RnnModel

GATES = 4


def input_shape(spec: RnnModel) -> tuple[int, ...]:
    return (spec.sequence_length, spec.input_size)


def _weights(spec: RnnModel) -> int:
    h = spec.hidden_size
    return GATES * h * ((spec.input_size + h) + (spec.layers - 1) * 2 * h)


def macs(spec: RnnModel) -> int:
    return spec.sequence_length * _weights(spec) + spec.hidden_size * CLASSES


def parameters(spec: RnnModel) -> int:
    """PyTorch keeps two bias vectors per layer, TensorFlow one."""
    biases = (2 if spec.framework == "torch" else 1) * GATES * spec.hidden_size * spec.layers
    return _weights(spec) + biases + spec.hidden_size * CLASSES + CLASSES


def activations(spec: RnnModel) -> int:
    return spec.sequence_length * (spec.input_size + spec.layers * (GATES + 3) * spec.hidden_size)


def torch_module(spec: RnnModel) -> Any:
    from torch import Tensor, nn

    class LastStep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(spec.input_size, spec.hidden_size, spec.layers, batch_first=True)
            self.classifier = nn.Linear(spec.hidden_size, CLASSES)

        def forward(self, value: Tensor) -> Any:
            steps, _ = self.lstm(value)
            return self.classifier(steps[:, -1])

    return LastStep()


def keras_model(spec: RnnModel) -> Any:
    import keras
    from keras import layers

    value = inputs = keras.Input(input_shape(spec), name=INPUT)
    for layer in range(spec.layers):
        value = layers.LSTM(spec.hidden_size, return_sequences=layer < spec.layers - 1)(value)
    return keras.Model(inputs, layers.Dense(CLASSES, name=OUTPUT)(value))
