"""The tree of errors."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

from inferbench_tasks import errors
from inferbench_tasks.errors import InferBenchError, InputError, SubmissionError
from inferbench_tasks.problem import Problem

ALL = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, InferBenchError) and cls.__module__ == errors.__name__
]


def example(cls: type[InferBenchError]) -> InferBenchError:
    if issubclass(cls, SubmissionError):
        return cls([Problem("x.yaml", 3, "serve.backend", "unknown"), Problem("x.yaml", None, "", "empty")])
    return cls("what is wrong")


@pytest.mark.parametrize("cls", ALL)
def test_an_error_survives_pickling_and_copying(cls: type[InferBenchError]) -> None:
    """Celery and multiprocessing pickle errors: type, message, everything set on it and its notes survive."""
    error = example(cls)
    error.hint = {"log": ["last line"]}  # type: ignore[attr-defined]
    error.add_note("a note")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is cls
        assert str(again) == str(error)
        assert again.__dict__ == error.__dict__
        assert again.exit_code == error.exit_code


def test_wrong_input_names_its_field_apart_from_the_message() -> None:
    """The text has both, as people read it; the field is asked for, not read from the text, and survives pickling."""
    error = InputError("x: is not there", field="model.path")
    again: InputError = pickle.loads(pickle.dumps(error))
    for one in (error, again):
        assert str(one) == "model.path: x: is not there"
        assert (one.field, one.message) == ("model.path", "x: is not there")
    without = InputError("load.network: nothing of it is a field")
    assert (without.field, without.message) == (None, str(without))


class _Demanding(InferBenchError):
    """A subclass whose __init__ takes something else than its message."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"{reason} ({code})")
        self.code = code


def test_a_subclass_may_take_what_it_likes() -> None:
    """Pickling does not call __init__ again."""
    again = pickle.loads(pickle.dumps(_Demanding(7, reason="broken")))
    assert (str(again), again.code) == ("broken (7)", 7)


@pytest.mark.parametrize("cls", ALL)
def test_bad_input_exits_with_2_and_everything_else_with_1(cls: type[InferBenchError]) -> None:
    """What the user can repair in the input is told apart from what went wrong with the run."""
    assert cls.exit_code == (2 if issubclass(cls, InputError) else 1)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    """Every class stands in the module's docstring, under its own base."""
    assert errors.__doc__
    stack: list[tuple[int, str]] = []
    drawn: dict[str, str | None] = {}
    for line in errors.__doc__.splitlines():
        if found := re.match(r"^([│├└─ ]*)([A-Z]\w+Error)\b", line):
            depth = len(found[1])
            while stack and stack[-1][0] >= depth:
                stack.pop()
            drawn[found[2]] = stack[-1][1] if stack else None
            stack.append((depth, found[2]))
    real = {
        cls.__name__: cls.__base__.__name__ if cls is not InferBenchError and cls.__base__ else None
        for cls in ALL
    }
    assert drawn == real


def test_a_submission_error_is_its_problems() -> None:
    """A line for each, with file, line and field where there are any."""
    error = example(SubmissionError)
    assert str(error) == "x.yaml:3: serve.backend: unknown\nx.yaml: empty"
    assert isinstance(error, SubmissionError)
    assert [problem.as_dict() for problem in error.problems] == [
        {"file": "x.yaml", "line": 3, "field": "serve.backend", "message": "unknown"},
        {"file": "x.yaml", "line": None, "field": "", "message": "empty"},
    ]
