"""What can go wrong, as one tree.

InferBenchError
├── InputError            the user's input is wrong; exit code 2
│   ├── SubmissionError   a submission does not validate; carries every problem at once
│   └── UnknownKindError  no variant of that name is registered
├── StageError            a stage of a run failed; exit code 1
│   ├── ConversionError   a conversion failed or changed the model's answers
│   ├── ServerError       a server did not start, died, or answered wrongly
│   │   └── LeaderAwayError   a worker's leader does not answer, and may later
│   └── LoadError         the load could not be applied
├── CancelledError        the user stopped the run
├── LeaseLostError        the job does not hold the device (any more) that it works on
├── DeliveryError         what was sent to another system did not all arrive
├── StorageError          a file or folder can't be read or written (no space, no permission)
├── PerfDBError           the performance database can't be reached or used
│   └── PerfDBAwayError   it does not answer, and may later
└── MissingExtraError     an optional part of InferBench is not installed

Only the CLI and the Airflow operators catch the base class.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferbench_tasks.problem import Problem


class InferBenchError(Exception):
    """Base of all errors meant for a user: the message says what, where, and what to do about it.

    Survives pickling whatever a subclass's ``__init__`` takes: Celery and multiprocessing pickle errors.
    """

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__.copy())


def _rebuild(cls: type[InferBenchError], args: tuple[Any, ...], state: dict[str, Any]) -> InferBenchError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class InputError(InferBenchError):
    """The user's input is wrong; nothing was started.

    ``field``: the dotted path of what is wrong in a submission, or a parameter's name; None where it is no single one.
    ``message``: what is wrong with it; the error's text is ``field: message``.
    """

    exit_code = 2

    def __init__(self, message: str = "", *, field: str | None = None) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


class SubmissionError(InputError):
    """A submission does not validate; ``problems`` holds every one of them, the message a line for each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class UnknownKindError(InputError):
    """No variant of that name is registered; the message lists those that are."""


class StageError(InferBenchError):
    """A stage of a run failed."""


class ConversionError(StageError):
    """A conversion failed, or its model's answers differ from the source's beyond the tolerance."""


class ServerError(StageError):
    """A server did not start, died, or answered wrongly; the message has the end of its log."""


class LeaderAwayError(ServerError):
    """A worker's leader does not answer, and may later."""


class LoadError(StageError):
    """The load could not be applied."""


class CancelledError(InferBenchError):
    """The user stopped the run."""


class LeaseLostError(InferBenchError):
    """The job does not hold the device (any more) that it works on."""


class DeliveryError(InferBenchError):
    """What was sent to another system did not all arrive there; the message says what is missing."""


class StorageError(InferBenchError):
    """A file or folder can't be read or written."""


class PerfDBError(InferBenchError):
    """The performance database can't be reached or used."""


class PerfDBAwayError(PerfDBError):
    """It does not answer, and may later: whoever has the time tries again."""


class MissingExtraError(InferBenchError):
    """An optional part of InferBench is not installed; the message names the command that installs it."""
