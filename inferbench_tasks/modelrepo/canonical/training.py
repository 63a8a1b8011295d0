"""A short real training of a canonical model on the digits data set; the same every time.

Its length is bounded by work and not by time, which would make the weights depend on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.modelrepo.canonical.base import CanonicalSpec, family_module, size_of
from inferbench_tasks.modelrepo.fitting import fit_keras, fit_torch
from inferbench_tasks.requests import digits

SEED = 7
BATCH_SIZE = 32
LEARNING_RATE = 3e-3
#: All steps together; a forward and a backward pass take three times the forward pass's work.
MAX_FLOP = 1_000_000_000_000
MAX_STEP_BYTES = 2 << 30


@dataclass(frozen=True)
class Schedule:
    """How many steps of which batch size."""

    steps: int
    batch_size: int


def schedule(spec: CanonicalSpec) -> Schedule:
    """``training.epochs`` over the training part, or as many steps as the work's bound allows."""
    size = size_of(spec)
    batch = max(1, min(BATCH_SIZE, MAX_STEP_BYTES // (4 * size.activations)))
    steps = spec.training.epochs * -(-len(digits.split().train_labels) // batch)
    allowed = max(1, MAX_FLOP // (3 * 2 * size.macs * batch))
    return Schedule(min(steps, allowed), batch)


def batches(
    spec: CanonicalSpec, plan: Schedule, watch: Watch
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Seeded batches: every epoch in another order."""
    split, shape = digits.split(), family_module(spec).input_shape(spec)
    rng = np.random.default_rng(SEED)
    left = np.empty(0, dtype=np.int64)
    for step in range(plan.steps):
        if len(left) < plan.batch_size:
            left = np.concatenate([left, rng.permutation(len(split.train_labels))])
        batch, left = left[: plan.batch_size], left[plan.batch_size :]
        watch.step(step, plan.steps, f"training {spec.family}")
        yield digits.fit(split.train[batch], shape), split.train_labels[batch]


def train_torch(spec: CanonicalSpec, watch: Watch) -> Any:
    """A trained ``torch.nn.Module`` in evaluation mode."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    module = family_module(spec).torch_module(spec)
    return fit_torch(module, batches(spec, schedule(spec), watch), LEARNING_RATE)


def train_keras(spec: CanonicalSpec, watch: Watch) -> Any:
    """A trained Keras model."""
    import keras
    import tensorflow as tf

    tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(SEED)
    model = family_module(spec).keras_model(spec)
    return fit_keras(model, batches(spec, schedule(spec), watch), LEARNING_RATE)
