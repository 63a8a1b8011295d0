"""From YAML, JSON or a document of PerfDB to a manifest; every problem with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.manifests.kinds.base import KINDS, Manifest
from inferbench_tasks.problem import Problem, show
from inferbench_tasks.submission.document import MAX_BYTES, Document, read_document
from inferbench_tasks.submission.fields import find_slot
from inferbench_tasks.submission.finding import unknown


def read_manifest(path: Path) -> Manifest:
    """The manifest in a YAML file. SubmissionError, with every problem and its line."""
    source = str(path)
    if not path.is_file():
        raise SubmissionError([Problem(source, None, "", "there is no such file")])
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        problem = Problem(source, None, "", f"can't be read: {error.strerror or error}")
        raise SubmissionError([problem]) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SubmissionError(
            [Problem(source, None, "", "not UTF-8 text; save the file as UTF-8")]
        ) from error
    return of_document(read_document(text, source))


def of_document(document: Document) -> Manifest:
    """The manifest in a document that was read; SubmissionError."""
    if document.problems:
        raise SubmissionError(document.problems)
    kind = document.data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        allowed = f"kind of manifest is missing; known: {', '.join(KINDS)}"
        message = unknown(KINDS, kind) if isinstance(kind, str) else allowed
        raise SubmissionError([document.problem(("kind",), message)])
    schema = KINDS.load(kind)
    try:
        return schema.model_validate(document.data)
    except ValidationError as error:
        problems = []
        for item in error.errors(include_url=False):
            path = _path(item["loc"], document.data)
            problems.append(document.problem(path, _words(dict(item), path, document.data, schema)))
        raise SubmissionError(
            sorted(dict.fromkeys(problems), key=lambda problem: problem.line or 0)
        ) from None


def of_plain(data: dict[str, Any], source: str) -> Manifest:
    """The manifest in plain values (a document of PerfDB, a request's body); SubmissionError without lines."""
    return of_document(Document(source, data))


def _path(location: tuple[str | int, ...], data: Any) -> tuple[str | int, ...]:
    """Pydantic's location without the names of a union's members."""
    path: list[str | int] = []
    value = data
    for index, part in enumerate(location):
        keyed = isinstance(value, dict) and part in value
        if keyed or (isinstance(value, (list, tuple)) and isinstance(part, int) and part < len(value)):
            value = value[part]
        elif index < len(location) - 1:
            continue
        path.append(part)
    return tuple(path)


def _words(item: dict[str, Any], path: tuple[str | int, ...], data: Any, schema: type[Manifest]) -> str:
    if item["type"] == "value_error":
        return str(item["ctx"]["error"])
    slot = find_slot(data, path, schema)
    if item["type"] == "extra_forbidden":
        around = find_slot(data, path[:-1], schema)
        model = around.model_for(value_at(data, path[:-1])) if around else None
        known = f"; known: {', '.join(model.model_fields)}" if model else ""
        return f"unknown key{known}"
    allowed = slot.describe() if slot else ""
    if item["type"] == "missing":
        return f"missing; {allowed}" if allowed else "missing"
    got = show(item["input"])
    return f"must be {allowed}; got {got}" if allowed else f"{item['msg']}; got {got}"


def value_at(data: Any, path: tuple[str | int, ...]) -> Any:
    """The value at a path that is there."""
    for part in path:
        data = data[part]
    return data
