"""The networks that are trained on Fashion-MNIST, here on made-up images: what they take, and that they learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.formats import keras as keras_format
from inferbench_tasks.formats import torch as torch_format
from inferbench_tasks.modelrepo import zoo_fashion
from inferbench_tasks.modelrepo.zoo import ZOO, zoo_source
from inferbench_tasks.modelrepo.zoo_fashion import FashionMnist
from inferbench_tasks.modelrepo.zoo_fashion_networks import NETWORKS
from inferbench_tasks.requests import fashion
from inferbench_tasks.submission.model import ZooModel

torch = pytest.importorskip("torch")
#: TensorFlow's arrays do not know NumPy 2's word for a copy.
KERAS_AND_NUMPY = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(autouse=True)
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the package's files: images of which one row is bright, the class's."""
    rng = np.random.default_rng(3)

    def part(name: str, folder: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        labels = np.arange(1280 if name == "train" else 200) % fashion.CLASSES
        images = rng.random((len(labels), 1, fashion.SIDE, fashion.SIDE)) / 4
        images[np.arange(len(labels)), 0, 2 * labels + 4] += 0.75
        return images.astype(np.float32), labels.astype(np.int64)

    monkeypatch.setattr(fashion, "part", part)
    monkeypatch.setattr(zoo_fashion, "BATCH_SIZE", 16)
    monkeypatch.setattr(fashion, "require_installed", lambda folder: None)


def test_there_are_five_architectures_in_the_zoo() -> None:
    """Each by its name, in PyTorch; the CNN in TensorFlow too."""
    assert set(NETWORKS) <= set(ZOO)
    assert len({network.architecture for network in NETWORKS.values()}) == len(NETWORKS) == 5
    both = [name for name, network in NETWORKS.items() if "tensorflow" in network.frameworks]
    assert both == ["fashion-mnist"]


@pytest.mark.parametrize(
    ("name", "framework"),
    [
        *((name, "torch") for name in NETWORKS),
        # The same in a second framework; the canonical families stay.
        pytest.param("fashion-mnist", "tensorflow", marks=[pytest.mark.long, KERAS_AND_NUMPY]),
    ],
)
def test_a_network_learns_and_is_read_again(name: str, framework: str, tmp_path: Path) -> None:
    """In 240 small steps, far better than the tenth that chance gives; its stored form scores each class."""
    pytest.importorskip(framework)
    source = zoo_source(ZooModel.model_validate({"kind": "zoo", "name": name, "framework": framework}))
    made = source.make(tmp_path, Watch())
    assert made.parameters is not None and 10_000 < made.parameters < 500_000
    images, labels = fashion.part("t10k", fashion.FOLDER)
    if framework == "torch":
        scores = torch_format.load(tmp_path / made.file)(torch.from_numpy(images)).detach().numpy()
    else:
        scores = keras_format.load(tmp_path / made.file)(images, training=False).numpy()
    assert scores.shape == (len(images), fashion.CLASSES)
    assert (scores.argmax(axis=1) == labels).mean() > 0.5


def test_the_same_settings_give_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit."""
    images = fashion.part("train", fashion.FOLDER)
    monkeypatch.setattr(fashion, "part", lambda name, folder: images)
    written = []
    for folder in (tmp_path / "first", tmp_path / "again"):
        folder.mkdir()
        FashionMnist("fashion-mnist-vit").make(folder, Watch())
        written.append((folder / "model" / "model.safetensors").read_bytes())
    assert written[0] == written[1]


def test_settings_of_the_first_network_are_what_they_were() -> None:
    """So what a machine has trained before is not trained again."""
    settings = FashionMnist("fashion-mnist").settings()
    assert list(settings) == ["zoo", "epochs", "batch", "rate", "seed", "torch", "recipe"]
    assert (settings["epochs"], settings["rate"], settings["seed"]) == (3, 2e-3, 7)
