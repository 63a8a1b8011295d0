"""Sizes of made-up samples: what the submission gives, shared by axes, drawn for each sample; else refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from inferbench_tasks.backends.first_answer import check_requests, first_rows, load_samples
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import Made, ModelSource, Watch
from inferbench_tasks.errors import InputError, StageError
from inferbench_tasks.requests import prepare
from inferbench_tasks.requests.ragged import is_ragged, packed, rows_of, sample_shape, unpacked
from inferbench_tasks.requests.rows import require_rows
from inferbench_tasks.submission.schema import RequestsSpec

INPUTS = (
    TensorSpec(name="ids", dtype="int64", shape=(-1,), below=50),
    TensorSpec(name="mask", dtype="int64", shape=(-1,)),
    TensorSpec(name="x.y", dtype="float32", shape=(3, -1)),
)
MODEL = ModelArtifact(
    name="m", framework="onnx", format="onnx", path="/m", digest="0", inputs=INPUTS, outputs=()
)


class Source(ModelSource):
    """Seeded noise, as a file of the user's."""

    name, framework = "m", "onnx"

    def settings(self) -> dict[str, Any]:
        return {}

    def make(self, folder: Path, watch: Watch) -> Made:
        raise NotImplementedError


def asked(*sizes: dict[str, Any], samples: int = 60, model: ModelArtifact = MODEL) -> Arrays:
    spec = RequestsSpec.model_validate({"kind": "random", "samples": samples, "sizes": list(sizes)})
    return prepare.sample(spec, Source(), model, None, seed=5)[0]


def predict(arrays: Arrays) -> Arrays:
    """A number for each sample, and one for each of its tokens."""
    ids = arrays["ids"].astype(np.float32)
    return {"sum": ids.sum(axis=1, keepdims=True), "tokens": ids * 2}


def test_a_number_is_the_size_of_all() -> None:
    """One tensor of all samples; an axis that is not named keeps 16."""
    arrays = asked({"axes": ["ids.1", "mask.1"], "size": 5})
    assert arrays["ids"].shape == arrays["mask"].shape == (60, 5)
    assert arrays["x.y"].shape == (60, 3, 16)


def test_a_law_is_drawn_for_each_sample() -> None:
    """All sizes of the law come, the named axes share each, and the same seed gives the same samples."""
    law = {"axes": ["ids.1", "mask.1", "x.y.2"], "size": {"kind": "uniform", "min": 2, "max": 4}}
    arrays = asked(law)
    assert all(is_ragged(array) for array in arrays.values())
    sizes = [len(row) for row in arrays["ids"]]
    assert set(sizes) == {2, 3, 4}
    assert sizes == [len(row) for row in arrays["mask"]] == [row.shape[1] for row in arrays["x.y"]]
    assert sample_shape(arrays["x.y"]) == (3, -1)
    assert all(row.max() < 50 for row in arrays["ids"])
    again = asked(law)
    assert all(np.array_equal(a, b) for a, b in zip(arrays["x.y"], again["x.y"], strict=True))
    check_requests(arrays, MODEL)


def test_samples_survive_the_file(tmp_path: Path) -> None:
    """What is written is read again, with the answers, a tensor for each; and nothing is pickled."""
    arrays = asked({"axes": ["ids.1", "mask.1"], "size": {"kind": "normal", "mean": 9, "max": 30}})
    reference = prepare.answers(predict, arrays, Watch())
    prepare.write(tmp_path, arrays, reference, None)
    read, answered = (load_samples(str(tmp_path / name)) for name in ("requests.npz", "reference.npz"))
    for row in range(len(arrays["ids"])):
        assert np.array_equal(read["ids"][row], arrays["ids"][row])
        assert answered["sum"][row] == arrays["ids"][row].sum()
        assert np.array_equal(answered["tokens"][row], arrays["ids"][row] * 2)
    # Question and answer of a batch belong to each other.
    batch, expected = first_rows(read, 3), first_rows(answered, 3)
    assert np.array_equal(predict(batch)["tokens"], expected["tokens"]) and len(expected["sum"]) == 3
    require_rows(predict, arrays, 1e-6)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (["nope.1"], "no input 'nope'; free are: ids.1, mask.1, x.y.2"),
        (["x.y.1"], "x.y.1 is fixed at 3"),
        (["ids.2"], r"ids has the axes 0 \(batch\) to 1"),
    ],
)
def test_an_axis_that_is_not_free_is_refused(axes: list[str], message: str) -> None:
    """With those that are."""
    with pytest.raises(InputError, match=message):
        asked({"axes": axes, "size": 3})


def test_more_than_fits_is_refused() -> None:
    """Before any is made: 200 of them would take gigabytes, 20,000 all memory that there is."""

    class None_(Source):
        def noise(self, inputs: Any, count: int, rng: np.random.Generator) -> Arrays:
            raise AssertionError("samples were made")

    sizes = [{"axes": ["x.y.2"], "size": 1_000_000}]
    spec = RequestsSpec.model_validate({"kind": "random", "samples": 20_000, "sizes": sizes})
    with pytest.raises(InputError, match="more than the 2 GiB that fit"):
        prepare.sample(spec, None_(), MODEL, None, seed=1)


def test_samples_that_have_their_own_sizes_keep_them() -> None:
    """A model whose samples are made otherwise is not asked for other sizes."""

    class Own(Source):
        def noise(self, inputs: Any, count: int, rng: np.random.Generator) -> Arrays:
            return super().noise(INPUTS, count, rng)

    spec = RequestsSpec.model_validate({"kind": "random", "sizes": [{"axes": ["ids.1"], "size": 3}]})
    with pytest.raises(InputError, match="makes its own samples"):
        prepare.sample(spec, Own(), MODEL, None, seed=1)


def test_nan_of_the_source_is_found() -> None:
    """With the sample and its shape."""
    arrays = asked({"axes": ["ids.1"], "size": {"kind": "uniform", "min": 1, "max": 3}})
    with pytest.raises(StageError, match="NaN in output o to sample 0"):
        prepare.answers(lambda a: {"o": a["ids"] * np.float32("nan")}, arrays, Watch())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "dataset", "sizes": [{"axes": ["a.1"], "size": 3}]}, "kind: random only"),
        ({"sizes": [{"axes": ["a.1", "a.1"], "size": 3}]}, "gives a.1 twice"),
        ({"sizes": [{"axes": ["a.0"], "size": 3}]}, "pattern"),
        ({"sizes": [{"axes": ["a.1"], "size": 0}]}, "greater than"),
        ({"sizes": [{"axes": ["a.1"], "size": {"kind": "lognormal", "mean": 9}}]}, "needs max"),
    ],
)
def test_what_can_be_no_size_is_refused(fields: dict[str, Any], message: str) -> None:
    """By the schema."""
    with pytest.raises(ValidationError, match=message):
        RequestsSpec.model_validate({"kind": "random", **fields})


def test_shapes_that_do_not_fit_are_refused() -> None:
    """A file that was cut is no silent wrong tensor; samples of different shapes make no batch."""
    plain = packed({"a": asked({"axes": ["ids.1"], "size": {"kind": "uniform", "min": 1, "max": 9}})["ids"]})
    with pytest.raises(ValueError, match="values, there are"):
        unpacked({**plain, "a": plain["a"][:-1]})
    with pytest.raises(ValueError, match="same shape"):
        rows_of(unpacked(plain)["a"], range(60))
