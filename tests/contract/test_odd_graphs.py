"""Every odd graph is either answered as ONNX Runtime answers the file itself, to 1e-4, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx.reference import ReferenceEvaluator

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.models import Watch, noise_like
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.modelrepo.build import build_model
from inferbench_tasks.modelrepo.file import FileSource
from inferbench_tasks.modelrepo.onnx_proof import TEXTS
from inferbench_tasks.submission.model import FileModel
from tests.contract.hostile_rows import ROWS
from tests.contract.hostile_values import VALUES
from tests.contract.odd_graphs import BF16, CASES

SIZE = 16
ALL = CASES | ROWS | VALUES


def built(folder: Path, name: str) -> Any:
    onnx.save(ALL[name][0](), folder / "m.onnx")
    source = FileSource(FileModel(kind="file", path="m.onnx"), folder)
    return build_model(source, folder / "data", Watch())


def file_itself(path: Path, samples: Arrays, rows: int, fixed: int | None) -> list[Any]:
    """The file's own answers to the samples: at its own batch, else a sample in each call, which is filled up."""
    model = onnx.load(path)
    if any(v.type.tensor_type.elem_type == BF16 for v in model.graph.input):
        bfloat16 = onnx.helper.tensor_dtype_to_np_dtype(BF16)  # which ONNX Runtime takes from no numpy array
        asked = {name: array.astype(bfloat16) for name, array in samples.items()}
        return list(ReferenceEvaluator(model).run(None, asked))
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = {value.name: value.shape for value in session.get_inputs()}
    names = list(dict.fromkeys(value.name for value in session.get_outputs()))
    if fixed and fixed > 1:
        return list(session.run(names, samples))
    whole = {name for name, shape in given.items() if samples[name].ndim > len(shape)}
    sizes = [shape[0] for name, shape in given.items() if name not in whole]
    size = sizes[0] if sizes and isinstance(sizes[0], int) else 1
    answers: list[list[Any]] = []
    for row in range(rows):
        feeds = {n: a[row] if n in whole else a[[row] * size] for n, a in samples.items()}
        answers.append(session.run(names, {name: np.asarray(array) for name, array in feeds.items()}))
    outputs = range(len(names))
    return [np.stack([_one(answer[at], size) for answer in answers]) for at in outputs]


def _one(answer: Any, size: int) -> Any:
    """A sample's part of a call in which all rows are that sample."""
    array = (
        np.array([list(each.values()) for each in answer]) if isinstance(answer, list) else np.asarray(answer)
    )
    return array if size == 1 else array.reshape(size, -1)[0]


@pytest.mark.parametrize("name", ALL)
def test_an_odd_graph(tmp_path: Path, name: str) -> None:
    """Right at batch 1, 2, 7 and 19, or right at its own, or refused with what is in the way."""
    becomes = ALL[name][1]
    if isinstance(becomes, str) and becomes != "free":
        with pytest.raises(InferBenchError, match=f"(?s){becomes}"):
            built(tmp_path, name)
        return
    model = built(tmp_path, name)
    fixed = None if becomes == "free" else int(becomes)
    assert model.batch_size == fixed, model.adapted
    predict = FORMATS.load("onnx")().open(model)
    for rows in (1, 2, 7, 19) if fixed is None else (fixed,):
        rng = np.random.default_rng(rows)
        samples = {
            spec.name: rng.choice(np.array(TEXTS, dtype=object), (rows, *spec.shape))
            if spec.dtype == "str"
            else noise_like(spec, rows, rng, SIZE)
            for spec in model.inputs
        }
        answer = predict(samples)
        expected = file_itself(tmp_path / "m.onnx", samples, rows, fixed)
        for spec, right in zip(model.outputs, expected, strict=True):
            actual = answer[spec.name]
            assert len(actual) == rows
            if spec.dtype == "str":
                assert actual.reshape(-1).tolist() == right.reshape(-1).tolist()
                continue
            np.testing.assert_allclose(
                actual.reshape(-1).astype(np.float64),
                right.reshape(-1).astype(np.float64),
                rtol=1e-4,
                atol=1e-4,
            )
