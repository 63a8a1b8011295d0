"""SQuAD's layout, 1.1 and 2.0: all right answers of a question, the questions without one, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.datasets.about import facts
from inferbench_tasks.datasets.base import open_dataset
from inferbench_tasks.datasets.fit import fitted
from inferbench_tasks.datasets.questions import Questions
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.zoo_digits import Digits
from inferbench_tasks.submission.spans import SpansSpec
from tests.layouts import CONTEXT, QUESTIONS, WORDS, squad, tokenizer


def model(*names: str, tokens: int = -1, dtype: str = "int64") -> ModelArtifact:
    """One of these inputs that scores each token."""
    return ModelArtifact(
        name="m", framework="onnx", format="onnx", path="", digest="",
        inputs=tuple(TensorSpec(name=name, dtype=dtype, shape=(tokens,)) for name in names),
        outputs=tuple(TensorSpec(name=f"{n}_logits", dtype="float32", shape=(tokens,)) for n in ("start", "end")),
    )  # fmt: skip


BERT = model("input_ids", "attention_mask", "token_type_ids")


def questions(folder: Path, of: ModelArtifact = BERT, **spans: Any) -> Questions:
    """Those of SQuAD 2.0 in a model's form."""
    squad(folder / "dev.json")
    tokenizer(folder / "tokenizer.json")
    spec = SpansSpec.model_validate({"tokenizer": "tokenizer.json", "max_tokens": 32, **spans})
    dataset = fitted(open_dataset("squad", "dev.json", folder), Digits("digits"), of, spec, folder)
    assert isinstance(dataset, Questions)
    return dataset


def test_each_right_answer_counts_once_and_none_is_an_answer_too(tmp_path: Path) -> None:
    """Of three written answers two are different; the question without one has none; plausible answers are wrong."""
    found = open_dataset("squad", squad(tmp_path / "dev-v2.0.json").name, tmp_path)
    assert found.targets["texts"].tolist() == [["Ada Lovelace", "Lovelace"], ["in 1843", ""], ["", ""]]
    assert found.rows(np.array([1])) == [(QUESTIONS[1], CONTEXT)] and found.unanswerable
    assert (facts(found)["texts"], facts(found)["unanswerable"], found.name) == (1, 1, "dev-v2.0")
    first = open_dataset("squad", squad(tmp_path / "dev-v1.1.json", "v1.1").name, tmp_path)
    assert first.count == 2 and not first.unanswerable


Edit = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d.update(data=[]), "dev.json has no question"),
        (lambda d: d.pop("data"), "dev.json: data must be a list; got nothing"),
        (
            lambda d: d["data"][0].pop("paragraphs"),
            r"dev.json: data\[0\]: paragraphs must be a list; got nothing",
        ),
        (lambda d: para(d).update(context=""), r"data\[0\].paragraphs\[0\]: context must be a text"),
        (lambda d: qa(d, 1).pop("question"), r"data\[0\].paragraphs\[0\].qas\[1\]: question must be a text"),
        (
            lambda d: qa(d, 1).update(id="a"),
            r"qas\[1\]: the id 'a' is that of dev.json: data\[0\].*qas\[0\], too",
        ),
        (
            lambda d: qa(d, 0)["answers"][1].update(text="Byron"),
            r"qas\[0\].answers\[1\]: 'Byron' does not stand in",
        ),
        (lambda d: qa(d, 0).update(answers=[]), r"qas\[0\]: there is no answer; .*is_impossible: true"),
        (
            lambda d: qa(d, 0).update(is_impossible=True),
            r"qas\[0\]: is_impossible is true, and there are answers",
        ),
        (lambda d: qa(d, 0).update(is_impossible=1), r"qas\[0\]: is_impossible must be true or false; got 1"),
        (lambda d: para(d).update(qas=para(d)["qas"][2:]), "dev.json: no question has an answer"),
    ],
)
def test_a_bad_file_is_refused_with_its_entry(tmp_path: Path, edit: Edit, message: str) -> None:
    """Which paragraph, question and answer, and what is needed there."""
    path = squad(tmp_path / "dev.json")
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        open_dataset("squad", "dev.json", tmp_path)


def para(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["data"][0]["paragraphs"][0]
    return found


def qa(document: dict[str, Any], at: int) -> dict[str, Any]:
    found: dict[str, Any] = para(document)["qas"][at]
    return found


def test_a_pair_is_one_input_of_one_length(tmp_path: Path) -> None:
    """[CLS] question [SEP] text [SEP], filled up; which tokens are of the text, and where in it each lies."""
    dataset = questions(tmp_path)
    inputs = dataset.inputs(np.arange(3))
    assert {name: array.shape for name, array in inputs.items()} == dict.fromkeys(inputs, (3, 32))
    ids = [WORDS[at] for at in inputs["input_ids"][0]]
    assert ids[:6] == ["[CLS]", "who", "wrote", "it", "[SEP]", "ada"] and ids[-1] == "[PAD]"
    count = int(inputs["attention_mask"][0].sum())
    assert ids[count - 1] == "[SEP]" and set(ids[count:]) == {"[PAD]"}
    assert inputs["token_type_ids"][0].tolist() == [0] * 5 + [1] * (count - 5) + [0] * (32 - count)
    places = dataset.passages(np.arange(3))
    assert (places.offsets[0, :5] == -1).all() and (places.offsets[0, count - 1 :] == -1).all()
    words = [CONTEXT[start:end] for start, end in places.offsets[0, 5 : count - 1]]
    assert words == CONTEXT.split() and not places.cut.any()


def test_a_text_that_is_cut_is_told(tmp_path: Path) -> None:
    """Ten tokens: what is behind them has no place, and can't be answered."""
    places = questions(tmp_path, max_tokens=10).passages(np.arange(3))
    assert places.cut.all() and (places.offsets[0, 5:9] >= 0).all() and (places.offsets[0, 9:] == -1).all()


def test_a_model_of_one_length_has_it_whatever_is_asked(tmp_path: Path) -> None:
    """And gets no input that it does not take, under the names of others, in its own type."""
    dataset = questions(tmp_path, model("input_ids", "input_mask", tokens=40, dtype="int32"))
    inputs = dataset.inputs(np.arange(1))
    assert {name: (array.shape, array.dtype.name) for name, array in inputs.items()} == dict.fromkeys(
        ("input_ids", "input_mask"), ((1, 40), "int32")
    )


def test_what_can_not_be_asked_is_refused(tmp_path: Path) -> None:
    """A model of other inputs, questions that fill everything, no tokenizer, one that is none, one without pairs."""
    with pytest.raises(
        InputError, match=r"m takes pixels int64\[-1\]; of questions are made input_ids or ids"
    ):
        questions(tmp_path, model("pixels"))
    with pytest.raises(
        InputError, match=r"leaves no room for its text in 6 tokens.*raise max_tokens"
    ) as caught:
        questions(tmp_path, model("input_ids", tokens=6))
    assert caught.value.field == "evaluate.spans.max_tokens"
    with pytest.raises(InputError, match="m brings no tokenizer.json"):
        questions(tmp_path, tokenizer=None)
    (tmp_path / "none.json").write_text("{}")
    with pytest.raises(InputError, match="none.json can't be read as a tokenizer.json"):
        questions(tmp_path, tokenizer="none.json")
    tokenizer(tmp_path / "single.json", pairs=False)
    with pytest.raises(InputError, match="puts no token before the question"):
        questions(tmp_path, tokenizer="single.json").passages(np.arange(1))
