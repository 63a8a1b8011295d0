"""Which traced runs are set side by side, of made-up results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from inferbench_tasks.analysis.stack import stored
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultDocument
from tests.unit.perfdb.builders import result

#: 3,000 runs of one model on one stack, the newest first, then one of another version, and one of another model.
ROWS = [
    *(("m", "1.31", f"run-{at}") for at in range(3_000)),
    ("m", "1.26", "old"),
    ("other", "1.26", "far"),
]


class Stored:
    """A store of these runs, the newest first."""

    def find_raw(self, filter: Mapping[str, Any], *, fields: Sequence[str]) -> list[dict[str, Any]]:
        """Of the models that are asked for, or of all."""
        names = filter.get("model.name", {"$in": ["m", "other"]})["$in"]
        return [
            {
                "run_id": run_id,
                "attempt": 1,
                "model": {"name": name},
                "backend": {"kind": "onnxruntime", "version": version},
            }
            for name, version, run_id in ROWS
            if name in names
        ]

    def get_result(self, run_id: str, attempt: int) -> ResultDocument:
        """One of them."""
        return result(run_id, attempt=attempt)


def subject_of(_: Stored, made: ResultDocument) -> str:
    """Its name, in place of all that its spans make."""
    return made.run_id


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subjects are runs' names."""
    monkeypatch.setattr(stored, "subject_of", subject_of)


def found(models: Sequence[str], by: str) -> list[Any]:
    """The names of the runs that stand for their groups."""
    return list(stored.newest(cast(Any, Stored()), models, by))


@pytest.mark.usefixtures("names")
def test_an_older_stack_is_found_behind_any_number_of_newer_runs() -> None:
    """The newest of each version, however many runs of another were traced since, and in the order of the models."""
    assert found(["m"], "version") == ["run-0", "old"]
    assert found(["other", "m"], "version") == ["far", "run-0", "old"]
    assert found(["m"], "system") == ["run-0"]


@pytest.mark.usefixtures("names")
def test_a_model_that_nobody_traced_is_said_with_those_that_were() -> None:
    """By their names, all of them."""
    with pytest.raises(InputError, match="no traced run of vgg tells of layers; .* there are: m, other"):
        found(["vgg"], "stack")


def test_one_file_is_one_stack_whatever_its_weights_were_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier versions called each fp32; what was asked for makes two, and of results without their job the name."""
    told: list[tuple[str, str | None]] = [
        ("int8", "fp32"),
        ("fp32", "fp32"),
        ("fp16", "fp16"),
        ("fp32", None),
    ]
    rows = [
        {
            "run_id": f"{called}-{asked}", "attempt": 1, "model": {"name": "m", "precision": called}, "format": "onnx",
            "provenance": {"job": {"convert": {"precision": asked}}} if asked else {},
        }
        for called, asked in told
    ]  # fmt: skip
    monkeypatch.setattr(stored, "subject_of", subject_of)
    monkeypatch.setattr(Stored, "find_raw", lambda self, filter, *, fields: rows)
    assert found(["m"], "stack") == ["int8-fp32", "fp16-fp16"]
