"""Models that come in packages: what each is asked fits it, and only its file is taken."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks.contracts.models import Package, Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo import magika, packaged
from inferbench_tasks.modelrepo.magika import first_and_last, of_files
from inferbench_tasks.modelrepo.packaged import PackagedModel
from inferbench_tasks.modelrepo.packaged_models import PACKAGED
from inferbench_tasks.modelrepo.zoo import ZOO
from inferbench_tasks.requests.sounds import log_power, voices


@pytest.mark.parametrize("name", PACKAGED)
def test_each_is_pinned_and_has_a_licence(name: str) -> None:
    """A SHA-256 of the package, and terms that allow to use it."""
    entry = PACKAGED[name]
    assert re.fullmatch(r"[0-9a-f]{64}", entry.package.sha256)
    assert entry.licence in ("Apache-2.0", "MIT")
    assert (entry.dataset is None) != (entry.noise is None), "what is it asked?"
    assert ZOO.load(name)(name, None).package == entry.package


@pytest.mark.parametrize("name", PACKAGED)
def test_its_samples_are_distinct_and_finite(name: str) -> None:
    """Two samples of each input, which differ from each other."""
    source = PackagedModel(name)
    dataset = source.dataset()
    first_two = np.array([0, 1])
    arrays = dataset.inputs(first_two) if dataset else source.noise((), 2, np.random.default_rng(1))
    assert all(len(array) == 2 and np.isfinite(array).all() for array in arrays.values())
    assert any(not np.array_equal(array[0], array[1]) for array in arrays.values())


def test_only_the_file_is_taken_and_adapted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with code beside its model leaves nothing but the model, whose fixed batch is made free."""

    def unpack(package: Package, target: Path, watch: Watch) -> None:
        node = helper.make_node("Relu", ["images"], ["output"])
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("images", "output")
        ]
        graph = helper.make_graph([node], "g", ends[:1], ends[1:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        (target / "ddddocr").mkdir()
        onnx.save(model, target / "ddddocr" / "common_det.onnx")
        (target / "ddddocr" / "__init__.py").write_text("raise SystemExit")

    monkeypatch.setattr(packaged, "fetch", unpack)
    made = PackagedModel("ddddocr-detection").make(tmp_path, Watch())
    assert made.batch_size is None and made.inputs[0].shape == (4,)
    assert {path.suffix for path in tmp_path.rglob("*")} == {".onnx"}


def test_it_is_called_by_what_its_weights_are_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file of the user's is: half precision here, whatever others of packages are in."""

    def unpack(package: Package, target: Path, watch: Watch) -> None:
        weights = numpy_helper.from_array(np.ones((4, 2), np.float16), "w")
        graph = helper.make_graph(
            [
                helper.make_node("Cast", ["w"], ["f"], to=1),
                helper.make_node("MatMul", ["images", "f"], ["output"]),
            ],
            "g",
            [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 4])],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["n", 2])],
            [weights],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        (target / "ddddocr").mkdir()
        onnx.save(model, target / "ddddocr" / "common_det.onnx")

    monkeypatch.setattr(packaged, "fetch", unpack)
    assert PackagedModel("ddddocr-detection").make(tmp_path, Watch()).precision == "fp16"


def test_a_picture_becomes_what_the_package_gives_its_model() -> None:
    """ddddocr's detection: the numbers as they are, blue first, as its ``get_bbox`` and ``preproc`` have it."""
    source = PackagedModel("ddddocr-detection")
    assert (source.picture_size, source.pixels, source.colour_order) == ((416, 416), (0.0, 1.0), "bgr")


def test_another_framework_is_refused() -> None:
    """They come as ONNX only."""
    with pytest.raises(InputError, match="comes as ONNX"):
        PackagedModel("magika", "torch")


def test_bytes_of_both_ends() -> None:
    """A short file stands at the beginning and at the end, with what is no byte in between."""
    dataset = PackagedModel("magika").dataset()
    assert dataset is not None
    row = dataset.inputs(np.array([0]))["bytes"][0]
    text = dataset.raw(np.array([0]))
    assert text is not None
    assert bytes(row[: len(text[0])].tolist()) == text[0] == bytes(row[-len(text[0]) :].tolist())
    assert row[len(text[0])] == 256 and row.dtype == np.int32


def test_white_space_goes_where_magika_lets_it_go() -> None:
    """At the beginning of what is read from there and at the end of what is read from the other, of 4096 bytes each."""
    row = first_and_last([b"  ab \n"])["bytes"][0]
    assert row[:5].tolist() == [*b"ab \n", 256] and row[-5:].tolist() == [256, *b"  ab"]
    long = b"a" * 10 + b" " * 5000 + b"b" * 10
    row = first_and_last([long])["bytes"][0]
    assert row[:1024].tolist() == [*long[:1024]] and row[1024:].tolist() == [*long[-1024:]]


@pytest.mark.parametrize("content", [b"", b"1234567", b" " * 5000 + b"12345678"])
def test_a_file_that_magika_asks_no_model_about_is_refused(content: bytes) -> None:
    """Its tool only tells text from binary then."""
    with pytest.raises(InputError, match="fewer than 8 bytes"):
        of_files([content])


def test_texts_of_a_package_go_with_the_models_file(tmp_path: Path) -> None:
    """Among its metadata, from where the classes are read; a file without them is refused."""
    graph = helper.make_graph([], "g", [], [])
    onnx.save(helper.make_model(graph), tmp_path / "model.onnx")
    source = PackagedModel("magika")
    with pytest.raises(InputError, match=r"has no 'magika.config' among its metadata"):
        source.named_classes(tmp_path / "model.onnx")
    config = {**magika._FORM, "target_labels_space": ["txt", "noise"], "overwrite_map": {"noise": "txt"}}
    config |= {"thresholds": {"noise": 0.9}, "medium_confidence_threshold": 0.5}
    types = {"txt": {"is_text": True}, "noise": {"is_text": False}}
    for name, text in ((magika.CONFIG, config), (magika.CONTENT_TYPES, types)):
        path = tmp_path / magika.FILES[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(text))
    packaged.keep(tmp_path / "model.onnx", tmp_path, magika.FILES)
    classes = source.named_classes(tmp_path / "model.onnx")
    assert classes is not None and classes.names == ("txt", "noise")
    assert (classes.said_as, classes.least, classes.else_said) == (("txt", "txt"), (0.5, 0.9), ("txt", "txt"))


def test_a_configuration_of_another_form_is_refused() -> None:
    """It would be asked other bytes than it was made for."""
    config = {**magika._FORM, "mid_size": 512}
    with pytest.raises(InputError, match="another form: mid_size"):
        magika.classes({magika.CONFIG: json.dumps(config), magika.CONTENT_TYPES: "{}"})


def test_made_up_samples_are_the_same_whichever_are_asked() -> None:
    """Those of models that have no data: no labels, and their name says that they are generated."""
    dataset = PackagedModel("silero-vad").made_up()
    assert dataset is not None and dataset.labels() is None and "generated" in dataset.name
    both, second = dataset.inputs(np.array([3, 4])), dataset.inputs(np.array([4]))
    assert all(np.array_equal(both[name][1:], second[name]) for name in second)
    assert not np.array_equal(both["input"][0], both["input"][1])
    assert PackagedModel("magika").made_up() is None


def test_voices_have_their_pitch() -> None:
    """Within -1 to 1; the largest power stands at an overtone's frequency below 4 kHz, not spread as of noise."""
    sounds = voices(3, 16_000, np.random.default_rng(2))
    assert np.abs(sounds).max() == pytest.approx(0.3, abs=1e-6)
    spectra = log_power(sounds)
    assert spectra.shape == (3, 61, 257)
    loud = spectra.mean(axis=1)
    assert (loud.argmax(axis=1) < 128).all() and (loud.max(axis=1) - np.median(loud, axis=1) > 1).all()
