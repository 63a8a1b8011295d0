"""Which labelled samples a server answers right, and what is kept of that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.handles import Endpoint, RequestSet
from inferbench_tasks.stages import served_accuracy
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.served_accuracy import (
    ServedAccuracy,
    accuracy_through_server,
    is_right,
    of_answers,
    samples_digest,
)

LABELS = np.array([0, 1, 2, 1, 0], dtype=np.int64)
INPUTS: dict[str, Any] = {"x": np.arange(10, dtype=np.float32).reshape(5, 2)}


def test_bits_counts_and_interval_by_hand() -> None:
    """Right, wrong, right, right, wrong: 10110 is 0x16; 3 of 5, with Wilson's 23.1% to 88.2%."""
    found = of_answers(np.array([True, False, True, True, False]), INPUTS, LABELS)
    assert (found.samples, found.right, found.hits, found.ratio) == (5, "16", 3, 0.6)
    summary = found.summary()
    assert (summary["right"], summary["samples"], summary["ci95_method"]) == (3, 5, "Wilson")
    assert summary["ci95"] == pytest.approx([0.2307, 0.8824], abs=1e-4)
    none = of_answers(np.zeros(9, dtype=bool), {"x": np.zeros((9, 1))}, np.zeros(9, dtype=np.int64))
    assert (none.right, none.hits) == ("000", 0)


def test_the_digest_is_of_the_very_samples_in_their_order() -> None:
    """Another order, another value, type, shape, name or label is another digest; the same again is the same."""
    own = samples_digest(INPUTS, LABELS)
    assert own == samples_digest({"x": INPUTS["x"].copy()}, LABELS.copy())
    changed = INPUTS["x"].copy()
    changed[4, 1] += 1
    others: list[tuple[dict[str, Any], Any]] = [
        ({"x": INPUTS["x"][::-1]}, LABELS[::-1]),
        ({"x": changed}, LABELS),
        ({"x": INPUTS["x"].astype(np.float64)}, LABELS),
        ({"x": INPUTS["x"].reshape(5, 1, 2)}, LABELS),
        ({"y": INPUTS["x"]}, LABELS),
        (INPUTS, LABELS + 1),
        ({"x": INPUTS["x"][:4]}, LABELS[:4]),
    ]
    assert len({own, *(samples_digest(arrays, labels) for arrays, labels in others)}) == 1 + len(others)
    texts = np.array(["a", "bc"], dtype=object)
    assert samples_digest({"t": texts}, LABELS[:2]) != samples_digest({"t": texts[::-1]}, LABELS[:2])


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ({"scores": np.array([[-np.inf, 0.2, 0.7, -np.inf]], np.float32)}, 2),
        ({"scores": np.array([[0.1, np.nan, 0.7]], np.float32)}, None),
        ({"scores": np.full((1, 3), -np.inf, np.float32)}, None),
        ({"label": np.array([1]), "scores": np.array([[0.1, 0.2, 0.7]], np.float32)}, 1),
        ({"text": np.array([["a cat"]], dtype=object), "scores": np.array([[0.9, 0.1]], np.float32)}, 0),
        ({"text": np.array([["a cat"]], dtype=object)}, None),
    ],
    ids=[
        "classes masked",
        "a score that is none",
        "all masked",
        "a class number",
        "text beside scores",
        "text alone",
    ],
)
def test_an_answer_names_the_class_that_measures_of_answers_read(
    answer: dict[str, Any], named: int | None
) -> None:
    """-inf masks a class, and the largest of the others is named; NaN, nothing but -inf, and words name none."""
    reference = {name: np.concatenate([output, output]) for name, output in answer.items()}
    assert [label for label in range(4) if is_right(answer, reference, label)] == (
        [] if named is None else [named]
    )


class Served:
    """A server that answers the scores of each sample's own class, but of one always the first."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def infer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(inputs["x"])
        number = int(inputs["x"][0, 0]) // 2
        scores = np.zeros((1, 3), dtype=np.float32)
        scores[0, LABELS[number] if number != 1 else 0] = 1.0
        return {"scores": scores}

    def close(self) -> None:
        self.asked.append("closed")


def test_each_sample_is_asked_once_and_the_one_wrong_answer_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sample 1 is answered wrong: 10111, 4 of 5."""
    server = Served()
    monkeypatch.setattr(served_accuracy, "open_probe", lambda endpoint: server)
    np.savez(tmp_path / "requests.npz", **INPUTS)
    np.savez(tmp_path / "reference.npz", scores=np.eye(3, dtype=np.float32)[LABELS])
    np.save(tmp_path / "labels.npy", LABELS)
    requests = RequestSet(
        path=str(tmp_path / "requests.npz"),
        reference_path=str(tmp_path / "reference.npz"),
        labels_path=str(tmp_path / "labels.npy"),
        samples=5,
        digest="ab",
    )
    endpoint = Endpoint(protocol="http", host="127.0.0.1", port=1, model_name="digits")
    ctx = Context(data_dir=tmp_path)
    found = accuracy_through_server(endpoint, requests, "image-classification", ctx)
    assert found == ServedAccuracy(samples=5, right="17", samples_digest=samples_digest(INPUTS, LABELS))
    assert found is not None and found.ratio == 0.8
    assert len(server.asked) == 6 and server.asked[-1] == "closed"
    unlabelled = requests.model_copy(update={"labels_path": None})
    assert accuracy_through_server(endpoint, unlabelled, "image-classification", ctx) is None
