"""The samples that a model is evaluated on, written for the stages that ask and judge."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from inferbench_tasks.backends.first_answer import load_samples
from inferbench_tasks.contracts.handles import ModelArtifact, ProcessorStep, TensorSpec
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.zoo_digits import Digits
from inferbench_tasks.processors.pipeline import Pipeline
from inferbench_tasks.quality.average_precision import AveragePrecision, AveragePrecision50
from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.judge import Judgement
from inferbench_tasks.quality.judge import judge as measured
from inferbench_tasks.quality.squad import ExactMatch
from inferbench_tasks.requests import digits as digits_file
from inferbench_tasks.requests.digits import Digits as OwnDigits
from inferbench_tasks.stages import evaluated, evaluated_raw, passages
from inferbench_tasks.stages.base import StageInput
from inferbench_tasks.submission.schema import JobSpec
from tests.layouts import answering, coco, detecting, squad, tokenizer

SAMPLES = 40


def largest(folder: Path) -> ModelArtifact:
    """A model whose answer is the largest number of its input."""
    graph = helper.make_graph(
        [helper.make_node("ReduceMax", ["input", "axes"], ["y"], keepdims=1)],
        "largest",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])],
        [helper.make_tensor("axes", TensorProto.INT64, [1], [1])],
    )
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return ModelArtifact(
        name="largest", framework="onnx", format="onnx", path=str(path), digest="1",
        inputs=(TensorSpec(name="input", dtype="float32", shape=(64,)),),
        outputs=(TensorSpec(name="y", dtype="float32", shape=(1,)),),
    )  # fmt: skip


def made(folder: Path, seed: int = 1, facts: dict[str, Any] | None = None, **evaluate: Any) -> Path:
    """The folder that was written (its facts go into ``facts``), of an ``.npz`` in which a sample's largest number is
    its target and its place.
    """
    places = np.arange(SAMPLES, dtype=np.float32)
    rows = np.random.default_rng(1).random((SAMPLES, 64)).astype(np.float32)
    rows[:, 5] = places + 1
    np.savez(folder / "mine.npz", input=rows, target_numbers=places + 1)
    job = JobSpec.model_validate(
        {
            "name": "mine",
            "model": {"kind": "zoo", "name": "digits"},
            "serve": {"backend": "onnxruntime"},
            "load": {"arrivals": {"kind": "poisson", "rate_rps": 1}, "duration_s": 1, "seed": seed},
            "evaluate": {"dataset": "arrays", "path": "mine.npz", **evaluate},
        }
    )
    out = folder / "out"
    out.mkdir(exist_ok=True)
    inp = StageInput(run_id="r", job_id="j", job=job)
    known = evaluated.make(out, inp, Digits("digits"), largest(folder), Watch(), folder)
    if facts is not None:
        facts.update(known)
    return out


def test_targets_are_those_of_the_samples_that_are_asked(tmp_path: Path) -> None:
    """Seven of forty by chance: each has the target of its own place, not of its number among the seven."""
    out = made(tmp_path, samples=7, measures=["target_spearman"])
    ids = np.load(out / evaluated.IDS_FILE)
    with np.load(out / evaluated.TARGETS_FILE) as targets:
        assert targets["numbers"].tolist() == (ids + 1).tolist()
    assert len(ids) == 7 and ids.max() > 6


def test_a_measure_that_does_not_fit_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    """With its reason, and those that fit."""
    with pytest.raises(
        InputError, match=r"mean_iou can't be had on mine .*target_masks.*fit: .*target_spearman"
    ):
        made(tmp_path, measures=["mean_iou"])


def digests(folder: Path, seed: int, **evaluate: Any) -> tuple[str, str, list[int]]:
    """Of the data, of the samples asked, and their ids."""
    facts: dict[str, Any] = {}
    out = made(folder, seed, facts, **evaluate)
    data = json.loads((out / evaluated.DATASET_FILE).read_text())["digest"]
    return data, facts["samples_digest"], np.load(out / evaluated.IDS_FILE).tolist()


def test_the_digest_of_the_samples_tells_which_of_them_are_asked(tmp_path: Path) -> None:
    """Equal for equal ids and content alone: another seed draws others, and all are all whatever the seed."""
    data, first, ids = digests(tmp_path, 1, samples=7)
    assert digests(tmp_path, 1, samples=7) == (data, first, ids)
    _, second, others = digests(tmp_path, 2, samples=7)
    assert others != ids and second not in (first, data)
    for seed, wanted in ((1, {}), (2, {}), (2, {"samples": SAMPLES})):
        assert digests(tmp_path, seed, **wanted)[:2] == (data, data)


class Relabelled(OwnDigits):
    """The digits with one label changed."""

    def labels(self) -> NDArray[np.int64]:
        changed: NDArray[np.int64] = super().labels().copy()
        changed[0] += 1
        return changed


def test_a_models_own_data_is_told_by_its_content_in_whatever_form_a_model_takes_it() -> None:
    """The digits as 64 numbers or as 28 x 28 pixels are the same samples; with another label they are not."""
    flat, pixels = OwnDigits("input", (64,)), OwnDigits("input", (1, 28, 28))
    assert evaluated.own_digest(flat) == evaluated.own_digest(pixels)
    assert evaluated.own_digest(Relabelled("input", (64,))) != evaluated.own_digest(flat)


def job(processors: dict[str, Any] | None = None, **evaluate: Any) -> JobSpec:
    model = {"kind": "file", "path": "model.onnx"}
    return JobSpec.model_validate(
        {"name": "mine", "model": model, "evaluate": evaluate, "processors": processors}
    )


def made_of(
    folder: Path, model: ModelArtifact, processors: dict[str, Any] | None = None, **evaluate: Any
) -> Path:
    """The folder that was written for a model of the user's."""
    out = folder / "out"
    out.mkdir(exist_ok=True)
    inp = StageInput(run_id="r", job_id="j", job=job(processors, **evaluate))
    evaluated.make(out, inp, Digits("digits"), model, Watch(), folder)
    return out


def first_ten(folder: Path) -> ModelArtifact:
    """A model whose scores of ten classes are the first ten of its 64 numbers."""
    one = {"starts": [0], "ends": [10], "axes": [1]}
    graph = helper.make_graph(
        [helper.make_node("Slice", ["input", *one], ["y"])],
        "first_ten",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
        [helper.make_tensor(name, TensorProto.INT64, [1], value) for name, value in one.items()],
    )
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return ModelArtifact(
        name="first_ten", framework="onnx", format="onnx", path=str(path), digest="1",
        inputs=(TensorSpec(name="input", dtype="float32", shape=(64,)),),
        outputs=(TensorSpec(name="y", dtype="float32", shape=(10,)),),
    )  # fmt: skip


@pytest.mark.parametrize(("evaluate", "version"), [({}, "1.0.0"), ({"dataset": "digits"}, "1.2.0")])
def test_of_which_version_the_data_is_is_known(
    tmp_path: Path, evaluate: dict[str, Any], version: str
) -> None:
    """Of a model's own data its manifest, of data that is named the one of that; nothing of the user's."""
    model = first_ten(tmp_path)
    (tmp_path / "out").mkdir()
    inp = StageInput(run_id="r", job_id="j", job=job(**evaluate))
    facts = evaluated.make(tmp_path / "out", inp, Digits("digits"), model, Watch(), tmp_path)
    assert (facts["manifest"]["name"], facts["manifest"]["version"]) == ("digits", version)
    assert len(facts["manifest"]["digest"]) == 64
    users: dict[str, Any] = {}
    made(tmp_path, facts=users)
    assert users["manifest"] is None


def test_a_data_set_whose_content_changed_under_an_old_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is asked: two labels of the digits are swapped."""
    plain = digits_file.split()
    labels = plain.test_labels.copy()
    labels[[0, -1]] = (labels[[0, -1]] + 1) % 10
    monkeypatch.setattr(digits_file, "split", lambda: plain._replace(test_labels=labels))
    with pytest.raises(
        InputError, match=r"digits has other samples here .* digits@1\.2\.0 says .* never changes"
    ):
        made_of(tmp_path, first_ten(tmp_path), dataset="digits")


def detector(folder: Path, *rows: list[list[float]]) -> ModelArtifact:
    """It answers these boxes to the pictures of shades 7, 9 and 42, in pixels of its input of 64 x 64."""
    boxes = np.zeros((43, 2, 6))
    for shade, row in zip((7, 9, 42), rows, strict=True):
        boxes[shade, : len(row)] = np.reshape(row, (-1, 6))
    path = detecting(folder / "model.onnx", boxes)
    return ModelArtifact(
        name="detector", framework="onnx", format="onnx", path=str(path), digest="1",
        inputs=(TensorSpec(name="input", dtype="float32", shape=(3, 64, 64)),),
        outputs=(TensorSpec(name="detections", dtype="float32", shape=(2, 6)),),
    )  # fmt: skip


#: Both boxes of ``tests.layouts.instances`` in pixels of 64 x 64.
FOUND: list[list[list[float]]] = [[], [[0, 0, 32, 32, 0.9, 0]], [[16, 16, 48, 48, 0.8, 2]]]


def test_boxes_are_set_against_answers_in_the_models_own_pixels(tmp_path: Path) -> None:
    """What a detector finds rightly is all right, of the pictures that are asked; one box elsewhere is half of it."""
    coco(tmp_path / "coco")
    out = made_of(tmp_path, detector(tmp_path, *FOUND), dataset="coco", path="coco")
    with np.load(out / evaluated.TARGETS_FILE) as targets, np.load(out / "reference.npz") as reference:
        answered = Answered(dict(reference), dict(reference), targets=dict(targets))
        assert AveragePrecision().of(answered).value == pytest.approx(1.0)
    known = json.loads((out / evaluated.DATASET_FILE).read_text())
    assert (known["boxes"], known["crowds"], known["without_boxes"]) == (2, 1, 1)
    moved = [[], FOUND[1], [[16, 0, 48, 32, 0.8, 2]]]
    out = made_of(tmp_path, detector(tmp_path, *moved), dataset="coco", path="coco")
    with np.load(out / evaluated.TARGETS_FILE) as targets, np.load(out / "reference.npz") as reference:
        answered = Answered(dict(reference), dict(reference), targets=dict(targets))
        assert AveragePrecision50().of(answered).value == pytest.approx(1 / 2)


def test_a_detector_of_other_classes_or_without_boxes_is_refused(tmp_path: Path) -> None:
    """COCO's own id 90 is no class of three; a model of one number has no boxes; vary has nothing to change."""
    coco(tmp_path / "coco")
    ids = [[], FOUND[1], [[16, 16, 48, 48, 0.8, 90]]]
    with pytest.raises(
        InputError, match=r"detector names class 90 of a box, coco has 3, .*\(person\).*classes.txt"
    ):
        made_of(tmp_path, detector(tmp_path, *ids), dataset="coco", path="coco")
    flat = largest(tmp_path).model_copy(
        update={"inputs": (TensorSpec(name="input", dtype="float32", shape=(64,)),)}
    )
    with pytest.raises(InputError, match=r"largest takes input float32\[64\], which is no image"):
        made_of(tmp_path, flat, dataset="coco", path="coco")
    with pytest.raises(InputError, match="are seen whole, with their boxes: there is no resize to change"):
        made_of(tmp_path, detector(tmp_path, *FOUND), dataset="coco", path="coco", vary={"resize": ["box"]})


def reads(folder: Path, start: dict[str, float], end: dict[str, float]) -> ModelArtifact:
    """It scores words as starts and ends of answers."""
    path = answering(folder / "model.onnx", start, end)
    names = ("input_ids", "attention_mask", "token_type_ids")
    return ModelArtifact(
        name="reader", framework="onnx", format="onnx", path=str(path), digest="1",
        inputs=tuple(TensorSpec(name=name, dtype="int64", shape=(-1,)) for name in names),
        outputs=tuple(TensorSpec(name=f"{n}_logits", dtype="float32", shape=(-1,)) for n in ("start", "end")),
    )  # fmt: skip


SPANS = {"tokenizer": "tokenizer.json", "max_tokens": 32}


def test_answers_are_read_out_of_scores_and_judged_in_words(tmp_path: Path) -> None:
    """A model that always says 'Lovelace wrote' or 'ada lovelace' is right once of two; what was written for the stage
    that judges reads the same.
    """
    tokenizer(tmp_path / "tokenizer.json")
    squad(tmp_path / "dev.json", "v1.1")
    model = reads(tmp_path, start={"ada": 5}, end={"lovelace": 5})
    out = made_of(tmp_path, model, dataset="squad", path="dev.json", spans=SPANS)
    reader = passages.read(out)
    assert reader is not None and reader.margin is None
    with np.load(out / evaluated.TARGETS_FILE) as targets, np.load(out / "reference.npz") as reference:
        outputs = dict(reference)
        texts = reader(outputs)
        assert not isinstance(texts, str) and texts.tolist() == ["Ada Lovelace", "Ada Lovelace"]
        answered = Answered(outputs, outputs, meaning="values", targets=dict(targets), texts=texts)
    assert ExactMatch().of(answered).value == pytest.approx(1 / 2)
    known = json.loads((out / evaluated.DATASET_FILE).read_text())
    assert known["spans"] == {"tokens": 32, "max_answer_tokens": 30, "no_answer_margin": None, "cut": 0}


def test_of_questions_without_an_answer_nothing_is_right_where_nothing_is_said(tmp_path: Path) -> None:
    """The first token's scores decide: they are above all spans' here, so that one of three is right."""
    tokenizer(tmp_path / "tokenizer.json")
    squad(tmp_path / "dev.json")
    model = reads(tmp_path, start={"[CLS]": 5, "ada": 4}, end={"[CLS]": 5, "lovelace": 4})
    for margin, texts in ((0.0, ["", "", ""]), (2.5, ["Ada Lovelace"] * 3)):
        spans = {**SPANS, "no_answer_margin": margin}
        reader = passages.read(made_of(tmp_path, model, dataset="squad", path="dev.json", spans=spans))
        assert reader is not None
        with np.load(tmp_path / "out" / "reference.npz") as reference:
            assert reader(dict(reference)).tolist() == texts  # type: ignore[union-attr]


def test_a_model_whose_outputs_are_not_told_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    """An output that is named and not there; what is allowed is said."""
    tokenizer(tmp_path / "tokenizer.json")
    squad(tmp_path / "dev.json")
    model = reads(tmp_path, start={"ada": 5}, end={"lovelace": 5})
    with pytest.raises(
        InputError, match="exact_match_ratio can't be had on dev .*no output begin; it has end_logits"
    ):
        made_of(tmp_path, model, dataset="squad", path="dev.json", spans={**SPANS, "start": "begin"})


#: As a detector gives its boxes: corners, and a score for each class.
RAW_BOXES: dict[int, list[list[float]]] = {
    8: [[0, 0, 32, 32, 0.9, 0.1, 0.1], [1, 1, 33, 33, 0.6, 0.1, 0.1]],
    41: [[16, 16, 48, 48, 0.1, 0.1, 0.8], [0, 0, 0, 0, 0, 0, 0]],
}
IMAGE = {"kind": "image", "settings": {"size": 64, "squeezed": True, "mean": 1.0, "std": 255.0}}
NMS = {"kind": "nms", "settings": {"min_score": 0.05, "max_detections": 5}}


def raw_detector(folder: Path) -> ModelArtifact:
    """It answers raw boxes by the shade of its input, which is one less than that of the file by ``IMAGE``."""
    table = np.zeros((43, 2, 7))
    for shade, boxes in RAW_BOXES.items():
        table[shade] = boxes
    path = detecting(folder / "raw.onnx", table)
    outputs = (TensorSpec(name="detections", dtype="float32", shape=(2, 7)),)
    return detector(folder, *FOUND).model_copy(update={"path": str(path), "outputs": outputs})


def test_what_processors_make_of_answers_is_set_against_targets(tmp_path: Path) -> None:
    """Inputs by ``before`` and boxes by ``after``: the second box of the same object is suppressed, all are found. The
    model's own outputs are no boxes, and without processors it is refused.
    """
    coco(tmp_path / "coco")
    processors = {"before": [IMAGE], "after": [NMS]}
    detections = raw_detector(tmp_path)
    out = made_of(tmp_path, detections, processors, dataset="coco", path="coco")
    with np.load(out / evaluated.TARGETS_FILE) as targets, np.load(out / "reference.npz") as reference:
        outputs, right = dict(reference), dict(targets)
    assert outputs["detections"].shape == (3, 2, 7)
    steps = tuple(ProcessorStep.model_validate(step) for step in (NMS,))
    after = Pipeline((), steps, ()).each_after(outputs)
    answered = Answered(outputs, outputs, meaning="values", targets=right, processed=after)
    judged = measured(answered, ["average_precision", "largest_difference_ratio"])
    assert judged.values["average_precision"].value == pytest.approx(1.0)
    assert judged.values["largest_difference_ratio"].value == 0.0
    broken = judged_of(answered, "they can't")
    assert (
        broken.left_out["average_precision"] == "they can't" and "largest_difference_ratio" in broken.values
    )
    with pytest.raises(
        InputError, match="average_precision can't be had on coco with this model: no output is n x m"
    ):
        made_of(tmp_path, detections, {"before": [IMAGE]}, dataset="coco", path="coco")


def judged_of(answered: Answered, reason: str) -> Judgement:
    """What is measured where the processors can't read the answers."""
    return measured(replace(answered, processed=reason), ["average_precision", "largest_difference_ratio"])


def test_the_servers_processors_are_sent_the_files(tmp_path: Path) -> None:
    """Requests carry each sample as it is, in the order of the answers, which are those of the same processors here."""
    coco(tmp_path / "coco")
    image = {"kind": "image", "settings": {"size": 64, "squeezed": True, "mean": 0.0, "std": 255.0}}
    processors = {"side": "server", "before": [image]}
    box = {"dataset": "coco", "path": "coco"}
    inp = StageInput(run_id="r", job_id="j", job=job(processors, **box))
    out = tmp_path / "out"
    out.mkdir()
    facts = evaluated.make(out, inp, Digits("digits"), detector(tmp_path, *FOUND), Watch(), tmp_path)
    assert facts["processing"]["side"] == "server" and facts["processing"]["sent_path"] == "sent.npz"
    sent = load_samples(str(out / "sent.npz"))["raw"]
    step = ProcessorStep.model_validate(image)
    inputs = Pipeline((step,), (), ("input",)).each_before(sent.tolist())
    assert np.array_equal(inputs["input"], load_samples(str(out / "requests.npz"))["input"])
    answers = load_samples(str(out / "reference.npz"))["detections"]
    assert np.array_equal(answers[:, 0, :4], [[0, 0, 0, 0], [0, 0, 32, 32], [16, 16, 48, 48]])


def test_answers_whose_size_follows_the_request_do_not_come_from_the_servers_processors(
    tmp_path: Path,
) -> None:
    """In the server a text is filled up to the longest of its request, here to the longest of all."""
    model = reads(tmp_path, start={"ada": 5}, end={"lovelace": 5})
    with pytest.raises(
        InputError, match=r"start_logits of reader is as large as what is asked at once"
    ) as caught:
        evaluated_raw.write(tmp_path, ["a", "b c"], (), model)
    assert caught.value.field == "processors.side"
    with pytest.raises(InputError, match="samples of the data set are ndarray"):
        evaluated_raw.write(tmp_path, [np.zeros(3)], (), detector(tmp_path, *FOUND))


def test_processors_before_the_model_need_raw_samples(tmp_path: Path) -> None:
    """Arrays and tensors are none, nor are a model's own samples that come as its inputs."""
    np.savez(tmp_path / "a.npz", input=np.zeros((2, 64), np.float32), target_numbers=np.arange(2.0))
    for asked in ({"dataset": "arrays", "path": "a.npz"}, {}):
        with pytest.raises(InputError, match=r"leave processors.before out") as caught:
            made_of(tmp_path, largest(tmp_path), {"before": [IMAGE]}, **asked)
        assert caught.value.field == "processors.before"
