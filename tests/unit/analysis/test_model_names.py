"""Models of one name that stand in one table are told apart by their framework, then by their content."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.analysis.devices.alike import thing_of
from inferbench_tasks.analysis.model_names import Named, apart, of_document
from inferbench_tasks.analysis.recommend.leaderboard import ranked
from inferbench_tasks.analysis.systems.found import sorted_in
from inferbench_tasks.analysis.systems.table import rows
from inferbench_tasks.figures import FIGURES
from tests.unit.analysis.devices.builders import T4
from tests.unit.analysis.devices.builders import run as on_device
from tests.unit.perfdb.builders import result

TORCH, TENSORFLOW = ({"name": "cnn", "framework": name, "source_digest": digest * 32, "digest": served * 32}
                     for name, digest, served in (("torch", "1a", "33"), ("tensorflow", "2b", "44")))  # fmt: skip


def document(name: str, model: dict[str, Any]) -> dict[str, Any]:
    return result(name, model=model, submission={"name": "x", "digest": name * 8}).model_dump()


def test_framework_then_digest() -> None:
    """Nothing of a name alone; the framework where that tells, and the content where it does not."""
    alone = Named("mlp", "torch", "99" * 32)
    first, other = Named("cnn", "torch", "1a" * 32), Named("cnn", "tensorflow", "2b" * 32)
    assert apart([alone, first, other, first]) == {alone: "", first: "torch", other: "tensorflow"}
    second = Named("cnn", "torch", "3c" * 32)
    assert apart([first, other, second]) == {
        first: "torch, 1a1a1a1a", other: "tensorflow", second: "torch, 3c3c3c3c",
    }  # fmt: skip
    assert apart([first, second]) == {first: "1a1a1a1a", second: "3c3c3c3c"}
    unknown = Named("cnn", None, None)
    assert apart([first, unknown]) == {first: "torch", unknown: ""}


def test_files_of_one_model_are_one_model() -> None:
    """It is served as another file in each format: its source is what it is."""
    served = document("a", TORCH | {"digest": "55" * 32})
    assert of_document(served) == of_document(document("b", TORCH)) == Named("cnn", "torch", "1a" * 32)


def test_the_leaderboard_and_the_systems_table_tell_them_apart() -> None:
    """Two rows of ``cnn``: each with its framework; two runs of one model have nothing more."""
    documents = [document("a", TORCH), document("b", TENSORFLOW)]
    by_figure = ranked(documents, FIGURES["p99_ms"], ())
    assert [row["model_apart"] for row in by_figure] == ["torch", "tensorflow"]
    assert [row["model_apart"] for row in rows(sorted_in(documents), lambda run: None)] == [
        "torch",
        "tensorflow",
    ]
    same = [document("a", TORCH), document("b", TORCH)]
    assert [row["model_apart"] for row in ranked(same, FIGURES["p99_ms"], ())] == [None, None]


def test_devices_name_the_framework() -> None:
    """In words and in a column; which model it is follows from its content alone."""
    torch, unknown = (thing_of(on_device(name, T4, 5.0, 100.0, model=model))
                      for name, model in (("a", {"framework": "torch"}), ("b", {"framework": None})))  # fmt: skip
    assert torch is not None and unknown is not None
    assert torch.words.startswith("m, torch, fp32 (5c5c5c5c)")
    assert torch.columns["framework"] == "torch" and torch == unknown
