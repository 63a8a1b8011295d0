"""The figures of a study, against a calculation by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from inferbench_tasks.bricks.cuts import Cuts, cut_of
from inferbench_tasks.bricks.study import (
    Cut,
    Studied,
    document,
    jaccard,
    repeated_types,
    rows,
    totals,
    unique_ratio,
)
from inferbench_tasks.errors import InputError
from tests.unit.bricks.graphs import residual, save, weight

TYPES = {"a": "Conv", "b": "Relu", "c": "Add", "d": "Shape"}


def made(keys: str, bookkeeping: str = "") -> Cut:
    """A cut of layers named by letters."""
    return Cut(
        view="source", instruction_set=None, granularity="1", layers=len(keys), keys=tuple(keys),
        operators=TYPES, bookkeeping=frozenset(bookkeeping),
    )  # fmt: skip


#: Two models that share a and b. One: 7 layers, 3 unique; other: 4 layers, 3 unique.
ONE, OTHER = made("aabbbac"), made("abbd", "d")


def test_unique_share_and_types_of_the_repeated() -> None:
    """Of a a b b b a c three differ; two convolutions and two activations repeat, which with three make seven."""
    assert unique_ratio(ONE) == 3 / 7 and unique_ratio(OTHER) == 3 / 4
    assert repeated_types(ONE) == {"Conv": 2, "Relu": 2} and repeated_types(OTHER) == {"Relu": 1}
    assert sum(repeated_types(ONE).values()) + len(ONE.unique) == len(ONE.keys)


def test_jaccard_counts_unique_layers() -> None:
    """a and b of a, b, c, d: a half, both ways round; 1 with itself and 0 with a stranger."""
    assert jaccard(ONE, OTHER) == jaccard(OTHER, ONE) == 2 / 4
    assert jaccard(ONE, ONE) == 1.0 and jaccard(made("a"), made("b")) == 0.0
    assert jaccard(made(""), made("")) is None


def test_totals_count_copies_among_layers_and_once_among_the_unique() -> None:
    """Three copies of seven and one of four: 25 layers, four unique, with or without a shape's computation."""
    models = [Studied("one", "f", 3, ONE), Studied("other", "f", 1, OTHER)]
    total = totals(models)
    assert (total.models, total.architectures, total.layers, total.bricks, total.unique) == (4, 2, 25, 25, 4)
    assert total.unique_ratio == 4 / 25
    found = document(models)
    assert found["totals_without_bookkeeping"]["bricks"] == 24
    assert found["totals_without_bookkeeping"]["unique"] == 3
    assert found["repeated_types"] == {"Relu": 3 * 2 + 1, "Conv": 3 * 2}
    assert found["jaccard"] == {"models": ["one", "other"], "grid": [[1.0, 0.5], [0.5, 1.0]]}


def test_new_is_what_no_model_before_has() -> None:
    """The first brings three, the second only d; the sum of the new is the total of the unique."""
    models = [Studied("one", "f", 2, ONE, 15, "a word"), Studied("other", "f", 1, OTHER)]
    assert [row["new"] for row in rows(models)] == [3, 1]
    assert [row["bookkeeping"] for row in rows(models)] == [0, 1]
    assert rows(models)[0]["layers_of_source"] == 15 and rows(models)[0]["differs"] == "a word"
    assert sum(row["new"] for row in rows(models)) == totals(models).unique


def test_a_cut_of_a_model_is_kept_by_all_that_decides_it(tmp_path: Path) -> None:
    """The same graph is read again as it was made; another view, granularity, shape or content is not it."""
    path = residual(tmp_path / "m.onnx")
    feeds = {"x": np.zeros((1, 3, 8, 8), np.float32)}
    cuts = Cuts(tmp_path)
    fresh = cut_of(path, feeds, "source", "1")
    assert (fresh.layers, len(fresh.keys), len(fresh.unique)) == (9, 9, 4)
    assert repeated_types(fresh) == {"Conv": 3, "Add": 1, "Relu": 1}
    assert not fresh.bookkeeping
    shapes: dict[str, tuple[int, ...]] = {"x": (1, 3, 8, 8)}
    cuts.put(fresh, "digest", shapes, "source", "1")
    assert cuts.get("digest", shapes, "source", "1") == fresh
    assert cuts.get("other", shapes, "source", "1") is None
    assert cuts.get("digest", {"x": (2, 3, 8, 8)}, "source", "1") is None
    assert cuts.get("digest", shapes, "portable", "1") is None
    assert cuts.get("digest", shapes, "source", "2") is None
    [file] = (tmp_path / "bricks" / "cuts").iterdir()
    file.write_text("{")
    assert cuts.get("digest", shapes, "source", "1") is None  # made again, not a reason to fail
    with pytest.raises(InputError, match="allowed: 1 to 9"):
        cut_of(path, feeds, "source", "10")


def test_bookkeeping_is_told_from_work(tmp_path: Path) -> None:
    """A shape (an integer) and a weight that is handed on are none of the model's arithmetic."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Reshape", ["x", "s"], ["r"]),
        helper.make_node("Identity", ["w"], ["v"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"w": weight(4, 4)}, {"x": (1, (2, 4))})
    made = cut_of(path, {"x": np.ones((2, 4), np.float32)}, "source", "1")
    assert sorted(made.operators[key] for key in made.keys) == ["Identity", "MatMul", "Reshape", "Shape"]
    assert sorted(made.operators[key] for key in made.bookkeeping) == ["Identity", "Shape"]
    plain = made.without_bookkeeping()
    assert sorted(made.operators[key] for key in plain.keys) == ["MatMul", "Reshape"]
