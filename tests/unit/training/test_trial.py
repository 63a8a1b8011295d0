"""What is said of a module that does not train."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.training.datasets import arrays
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import Order
from inferbench_tasks.training.trial import check

pytest.importorskip("torch")
MODULE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 10)
        self.other = nn.Linear(1, 1)

    def forward(self, images):
        scores = self.linear(images.mean((2, 3)))
        return {result}


def build():
    return {network}
"""
HALF = "nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 5))"
NORMS = "nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 10))"


def order(folder: Path, result: str, network: str, **train: object) -> Order:
    """An order for a module, on digits."""
    job = TrainingJob.model_validate(
        {
            "kind": "training",
            "name": "x",
            "model": {"kind": "file", "name": "own", "module": "net.py"},
            "data": {"kind": "digits", "samples": 41, "image_size": 8},
            "train": {"batch_size": 8, **{k: v for k, v in train.items() if k != "strategy"}},
            "devices": {"strategy": train.get("strategy", "single")},
        }
    )
    samples, labels = arrays(job, folder)
    np.save(folder / "images.npy", samples)
    np.save(folder / "labels.npy", labels)
    (folder / "module.py").write_text(MODULE.format(result=result, network=network))
    return Order(
        job=job,
        images_path=str(folder / "images.npy"),
        labels_path=str(folder / "labels.npy"),
        module_folder=str(folder),
    )


@pytest.mark.parametrize(
    ("result", "network", "message"),
    [
        ("scores", "nn.ReLU()", "no parameters to train"),
        ("scores", HALF, "labels go from 0 to 9, and forward gives 5 scores: they must be 10 at least"),
        ("scores", NORMS, "ValueError: Expected more than 1 value per channel .* with 1 sample"),
        ("scores", "None", "returned NoneType; it has to return a torch.nn.Module"),
        ("scores[:1]", "Net()", "forward gives 1 x 10 for 8 sample"),
        ("(scores, scores)", "Net()", "forward gives tuple"),
        ("scores.long()", "Net()", "forward gives int64 of 8 x 10"),
        ("scores[:, :, None]", "Net()", "8 x 10 x 1 for 8 sample.*needed are n x classes scores"),
        ("scores / 0 * 0", "Net()", "the loss of the first batch is nan"),
        ("scores.detach()", "Net()", "scores have no gradient"),
        ("torch.zeros(len(images), 10, requires_grad=True)", "Net()", "no parameter gets a gradient"),
        ("scores * 0", "Net()", "all gradients of the first batch are 0"),
        (
            "self.missing",
            "Net()",
            "line 14: AttributeError: 'Net' object has no attribute 'missing', with 8 sample",
        ),
    ],
)
def test_a_module_that_does_not_train_is_told_why(
    tmp_path: Path, result: str, network: str, message: str
) -> None:
    """Parameters, outputs, labels, loss and gradients, in this order, and where its own code failed."""
    with pytest.raises(InputError, match=message) as caught:
        check(order(tmp_path, result, network))
    assert str(caught.value.field).startswith("model.")


def test_parameters_without_a_gradient_are_no_matter_of_one_process(tmp_path: Path) -> None:
    """DistributedDataParallel waits for them; forward passes alone need neither parameters nor scores."""
    check(order(tmp_path, "scores", "Net()"))
    with pytest.raises(InputError, match=r"2 parameter\(s\) get no gradient \(other.weight, other.bias\)"):
        check(order(tmp_path, "scores", "Net()", strategy="ddp"))
    check(order(tmp_path, "scores", "nn.ReLU()", benchmark="inference"))
