"""Which traced runs are set side by side, of made-up results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from inferbench_tasks.analysis.stack import stored
from inferbench_tasks.analysis.stack.base import Subject
from inferbench_tasks.analysis.stack.profile import Profile
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


def subject_of(_: Stored, made: ResultDocument) -> Subject:
    """Its name, in place of all that its spans make."""
    about = {"digest": "small", "precision": "fp32"} if made.run_id == "older" else {}
    return Subject(Profile("a", made.run_id, (), (1.0,), 1, about))


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subjects are runs' names."""
    monkeypatch.setattr(stored, "subject_of", subject_of)


def found(models: Sequence[str], by: str) -> list[Any]:
    """The names of the runs that stand for their groups."""
    subjects, _ = stored.newest(cast(Any, Stored()), models, by)
    return [subject.profile.run_id for subject in subjects]


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


def rows_of(*told: tuple[str, str, str | None, str, str]) -> list[dict[str, Any]]:
    """Runs of one model, the newest first: run, verdict, what was asked for, what the weights were called, digest."""
    return [
        {
            "run_id": run, "attempt": 1, "model": {"name": "m", "precision": called, "digest": digest},
            "format": "onnx", "verdict": verdict,
            "provenance": {"job": {"convert": {"precision": asked}}} if asked else {},
        }
        for run, verdict, asked, called, digest in told
    ]  # fmt: skip


def test_one_file_is_one_stack_whatever_its_weights_were_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier versions called each fp32. What was asked for makes two, and so do two files of one name whose weights
    differ; of results without their job the name is what was asked for.
    """
    rows = rows_of(
        ("new", "valid", "fp32", "int8", "small"),
        ("old", "valid", "fp32", "fp32", "small"),
        ("half", "valid", "fp16", "fp16", "converted"),
        ("full", "valid", "fp32", "fp32", "large"),
        ("again", "valid", "fp32", "fp32", "exported again"),
        ("older", "valid", None, "fp32", "small"),
    )
    monkeypatch.setattr(stored, "subject_of", subject_of)
    monkeypatch.setattr(Stored, "find_raw", lambda self, filter, *, fields: rows)
    assert found(["m"], "stack") == ["new", "half", "full"]
    rows[0]["verdict"] = rows[1]["verdict"] = "invalid: late"
    shown, _ = stored.newest(cast(Any, Stored()), ["m"], "stack")
    older = shown[0].profile
    assert (older.run_id, older.about["precision"]) == ("older", "int8"), "also where the newest is not shown"


def test_traces_of_two_batches_are_two_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of each is there, so that a stack that was traced with 8 samples is set beside the other with 8, and
    not beside its one. Of before the batch was kept a request had one sample."""
    rows = rows_of(
        *((name, "valid", "fp32", "fp32", "d") for name in ("eight", "one", "eight again", "of before"))
    )
    for row, size in zip(rows, (8, 1, 8, None), strict=True):
        row["extensions"] = {"trace": {"batch_size": size} if size else {}}
    monkeypatch.setattr(stored, "subject_of", subject_of)
    monkeypatch.setattr(Stored, "find_raw", lambda self, filter, *, fields: rows)
    for by in ("stack", "version", "system"):
        assert found(["m"], by) == ["eight", "one"]


def test_the_newest_valid_run_that_can_be_analysed_stands_for_its_stack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that does not count only where there is no other; what can't be analysed is named, and a model of which
    nothing else is left is refused.
    """
    rows = rows_of(
        ("disturbed", "disturbed: others", "fp32", "fp32", "d"),
        ("broken", "valid", "fp32", "fp32", "d"),
        ("good", "valid", "fp32", "fp32", "d"),
        ("invalid", "invalid: late", "fp16", "fp16", "h"),
    )

    def subject(store: Stored, made: ResultDocument) -> Subject:
        if made.run_id == "broken":
            raise InputError("no layers", field="RUN")
        return subject_of(store, made)

    monkeypatch.setattr(stored, "subject_of", subject)
    monkeypatch.setattr(Stored, "find_raw", lambda self, filter, *, fields: rows)
    subjects, left_out = stored.newest(cast(Any, Stored()), ["m"], "stack")
    assert [subject.profile.run_id for subject in subjects] == ["good", "invalid"]
    assert left_out == ["broken: no layers"]
    del rows[0], rows[1:]
    with pytest.raises(InputError, match="no traced run of m can be analysed: broken: no layers"):
        found(["m"], "stack")
