"""Training a small network on labelled batches: the same every time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Inputs and class ids, batch by batch.
Batches: TypeAlias = Iterable[tuple[NDArray[np.float32], NDArray[np.int64]]]


def fit_torch(module: Any, batches: Batches, rate: float) -> Any:
    """The ``torch.nn.Module`` after a step of Adam's for each batch, in evaluation mode."""
    import torch

    module.train()
    optimiser = torch.optim.Adam(module.parameters(), lr=rate)
    for inputs, labels in batches:
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(torch.from_numpy(inputs)), torch.from_numpy(labels))
        loss.backward()
        optimiser.step()
    return module.eval()


def fit_keras(model: Any, batches: Batches, rate: float) -> Any:
    """The Keras model, whose outputs are scores before softmax, after a step of Adam's for each batch."""
    import keras
    import tensorflow as tf

    optimiser = keras.optimizers.Adam(rate)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimiser.build(model.trainable_variables)

    def learn(inputs: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(inputs, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimiser.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    step = tf.function(learn, reduce_retracing=True)
    for inputs, labels in batches:
        step(tf.constant(inputs), tf.constant(labels))
    return model
