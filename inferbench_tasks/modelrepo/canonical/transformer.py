"""``transformer``: attention blocks (self-attention and a feed-forward part of four times the width,
each with a shortcut and layer normalisation), then the mean over the steps and a classifier."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.modelrepo.canonical.base import CLASSES, INPUT, OUTPUT, TransformerModel

WIDER = 4


def input_shape(spec: TransformerModel) -> tuple[int, ...]:
    return (spec.sequence_length, spec.hidden_size)


def macs(spec: TransformerModel) -> int:
    s, h = spec.sequence_length, spec.hidden_size
    return spec.layers * ((4 + 2 * WIDER) * s * h * h + 2 * s * s * h) + h * CLASSES


def parameters(spec: TransformerModel) -> int:
    h = spec.hidden_size
    block = (4 + 2 * WIDER) * h * h + (4 + WIDER + 1) * h + 4 * h
    return spec.layers * block + h * CLASSES + CLASSES


def activations(spec: TransformerModel) -> int:
    s, h = spec.sequence_length, spec.hidden_size
    return s * h + spec.layers * (s * h * (10 + 2 * WIDER) + 2 * spec.heads * s * s)


def torch_module(spec: TransformerModel) -> Any:
    from torch import Tensor, nn
    from torch.nn.functional import scaled_dot_product_attention

    h, heads = spec.hidden_size, spec.heads

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(h, 3 * h)
            self.project = nn.Linear(h, h)
            self.norm_1, self.norm_2 = nn.LayerNorm(h), nn.LayerNorm(h)
            self.wide, self.narrow = nn.Linear(h, WIDER * h), nn.Linear(WIDER * h, h)
            self.activation = nn.ReLU()

        def forward(self, value: Tensor) -> Any:
            q, k, v = (
                part.unflatten(-1, (heads, h // heads)).transpose(1, 2)
                for part in self.qkv(value).chunk(3, -1)
            )
            mixed = scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            value = self.norm_1(value + self.project(mixed))
            return self.norm_2(value + self.narrow(self.activation(self.wide(value))))

    class MeanOverSteps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.Sequential(*(Block() for _ in range(spec.layers)))
            self.classifier = nn.Linear(h, CLASSES)

        def forward(self, value: Tensor) -> Any:
            return self.classifier(self.blocks(value).mean(1))

    return MeanOverSteps()


def keras_model(spec: TransformerModel) -> Any:
    import keras
    from keras import layers

    h = spec.hidden_size
    value = inputs = keras.Input(input_shape(spec), name=INPUT)
    for _ in range(spec.layers):
        mixed = layers.MultiHeadAttention(spec.heads, h // spec.heads)(value, value)
        value = layers.LayerNormalization(epsilon=1e-5)(layers.Add()([value, mixed]))
        wide = layers.Dense(WIDER * h, activation="relu")(value)
        value = layers.LayerNormalization(epsilon=1e-5)(layers.Add()([value, layers.Dense(h)(wide)]))
    value = layers.GlobalAveragePooling1D()(value)
    return keras.Model(inputs, layers.Dense(CLASSES, name=OUTPUT)(value))
