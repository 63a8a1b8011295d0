"""A model that scores characters, on words that are drawn: its inputs, what is right, what is written for the judge."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image as Pillow

from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.datasets.base import open_dataset
from inferbench_tasks.datasets.fit import Fitted, fitted
from inferbench_tasks.datasets.varied import recipes
from inferbench_tasks.datasets.words import WORDS, picture
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.packaged import PackagedModel
from inferbench_tasks.processors.image import Image
from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.error_rates import CharacterErrors
from inferbench_tasks.quality.squad import ExactMatch
from inferbench_tasks.stages import evaluated
from inferbench_tasks.stages.answer_texts import reader_in, texts_of
from inferbench_tasks.stages.base import StageInput
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.spans import SpansSpec
from inferbench_tasks.submission.vary import VarySpec

LETTERS = "".join(sorted(set("".join(WORDS))))


def saying(
    folder: Path, word: str, characters: str | None = LETTERS, classes: int | None = None
) -> ModelArtifact:
    """A model that says this word of every picture: a blank after each character, then a repeat of the last one."""
    path = [at for letter in word for at in (LETTERS.index(letter) + 1, 0)][:-1]
    path.append(path[-1])
    scores = np.eye(classes or len(LETTERS) + 2, dtype=np.float32)[path]
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
        helper.make_node("Unsqueeze", ["nothing", "last"], ["rows"]),
        helper.make_node("Add", ["rows", "scores"], ["y"]),
    ]
    constants = {
        "axes": np.array([1, 2, 3]), "zero": np.zeros(1, np.float32), "last": np.array([1, 2]), "scores": scores,
    }  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "saying",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", *scores.shape])],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    if characters is not None:
        helper.set_model_props(model, {"character": "\n".join(characters)})
    onnx.save(model, folder / "model.onnx")
    return ModelArtifact(
        name="ppocr-recognition", framework="onnx", format="onnx", path=str(folder / "model.onnx"), digest="1",
        task="text-recognition",
        inputs=(TensorSpec(name="x", dtype="float32", shape=(3, -1, -1)),),
        outputs=(TensorSpec(name="y", dtype="float32", shape=(-1, scores.shape[1])),),
    )  # fmt: skip


def test_words_are_given_as_the_package_gives_lines_of_text(tmp_path: Path) -> None:
    """48 x 320, (x / 255 - 0.5) / 0.5, blue first; and what is right is the word that stands in the picture."""
    words = open_dataset("words", None, tmp_path)
    dataset = fitted(words, PackagedModel("ppocr-recognition"), saying(tmp_path, "model"))
    pixels = Image((48, 320), 0.0, 1.0)([picture(7)])[0]
    assert np.allclose(dataset.inputs(np.array([7]))["x"][0], (pixels / 255 - 0.5) / 0.5, atol=1e-6)
    assert dataset.targets()["texts"][:21].tolist() == [*WORDS, WORDS[0]]
    assert isinstance(dataset, Fitted) and dataset.characters == (*LETTERS, " ")
    assert not words.targets, "what is evaluated as a classification has no other targets than before"


def test_blue_is_first(tmp_path: Path) -> None:
    """A red picture has its colour in the last plane; the order that it has can't be the change of a variant, the other
    one can, and ImageNet's means are each of its own colour.
    """
    source, model = PackagedModel("ppocr-recognition"), saying(tmp_path, "model")
    data = io.BytesIO()
    Pillow.new("RGB", (320, 48), (255, 0, 0)).save(data, "PNG")
    (tmp_path / "set" / "a").mkdir(parents=True)
    (tmp_path / "set" / "a" / "red.png").write_bytes(data.getvalue())
    dataset = fitted(open_dataset("folder", "set", tmp_path), source, model)
    assert dataset.inputs(np.array([0]))["x"][0].mean(axis=(1, 2)).tolist() == [-1, -1, 1]
    assert "texts" not in dataset.targets()
    with pytest.raises(InputError, match="the order in which the model takes colours anyway"):
        recipes(VarySpec.model_validate({"colour_order": ["bgr"]}), source, model)
    vary = VarySpec.model_validate({"colour_order": ["rgb"], "normalise": ["imagenet"]})
    settings = [recipe.settings for _, recipe in recipes(vary, source, model)]
    assert [of["colour_order"] for of in settings] == ["rgb", "bgr"]
    assert settings[1]["mean"] == (103.53, 116.28, 123.675) and settings[1]["std"] == (57.375, 57.12, 58.395)


def made(folder: Path, model: ModelArtifact) -> Path:
    """The folder that was written of 40 words by chance."""
    spec = {
        "name": "ocr", "model": {"kind": "zoo", "name": "ppocr-recognition"},
        "evaluate": {"dataset": "words", "samples": 40},
    }  # fmt: skip
    inp = StageInput(run_id="r", job_id="j", job=JobSpec.model_validate(spec))
    out = folder / "out"
    out.mkdir()
    evaluated.make(out, inp, PackagedModel("ppocr-recognition"), model, Watch(), folder)
    return out


def test_answers_are_judged_as_texts(tmp_path: Path) -> None:
    """A model that says 'answer' of every picture is right where 'answer' stands, and nowhere else."""
    out = made(tmp_path, saying(tmp_path, "answer"))
    reader = reader_in(out)
    assert reader is not None
    with np.load(out / evaluated.TARGETS_FILE) as targets, np.load(out / "reference.npz") as reference:
        outputs, right = dict(reference), targets["texts"]
    texts = reader(outputs)
    assert not isinstance(texts, str) and texts.tolist() == ["answer"] * 40
    answered = Answered(outputs, outputs, meaning="values", targets={"texts": right}, texts=texts)
    share = float((right == "answer").mean())
    assert 0 < share < 1 and ExactMatch().of(answered).value == pytest.approx(share)
    assert 0 < CharacterErrors().of(answered).value < 2
    known = json.loads((out / evaluated.DATASET_FILE).read_text())
    assert known["ctc"] == {"rule": "greedy", "characters": len(LETTERS) + 1}


def test_characters_that_are_not_those_of_the_scores_are_refused(tmp_path: Path) -> None:
    """One more or fewer would shift every letter; a file without any can't be read."""
    with pytest.raises(InputError, match=r"character_error_ratio can't be had on words .*one output must be"):
        made(tmp_path, saying(tmp_path, "answer", classes=len(LETTERS) + 1))
    with pytest.raises(InputError, match="has no 'character' among its metadata"):
        fitted(
            open_dataset("words", None, tmp_path),
            PackagedModel("ppocr-recognition"),
            saying(tmp_path, "answer", characters=None),
        )


def test_processors_of_the_submission_read_answers_themselves(tmp_path: Path) -> None:
    """Who makes something of the scores by his own processors is not overruled."""
    dataset = fitted(
        open_dataset("words", None, tmp_path), PackagedModel("ppocr-recognition"), saying(tmp_path, "answer")
    )
    kinds = [texts_of(dataset, np.arange(2), SpansSpec(), processed=processed) for processed in (False, True)]
    assert kinds[0] is not None and kinds[0].kind == "ctc" and kinds[1] is None
