"""From a file, a text or data to a submission of its kind; every problem at once, each with its line."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from inferbench_tasks.dotted import contains, parts
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.problem import MAX_PROBLEMS, FieldPath, Problem, dotted, show
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.auto_parts import undecided, with_parts
from inferbench_tasks.submission.base import DEFAULT_KIND, JobBase, SubmissionBase, SweepSpec, normal_sweep
from inferbench_tasks.submission.bounds import data_problems
from inferbench_tasks.submission.document import MAX_BYTES, Document, read_document
from inferbench_tasks.submission.explain import explain
from inferbench_tasks.submission.files import changed_files, content_digests, missing_files
from inferbench_tasks.submission.finding import unknown
from inferbench_tasks.submission.named_manifests import with_manifests
from inferbench_tasks.submission.named_systems import with_systems
from inferbench_tasks.submission.slo import current_field, current_names, current_paths
from inferbench_tasks.submission.sweep import Job, check_structure, expand, try_expand


def read_submission(path: Path, abilities: Abilities) -> SubmissionBase:
    """The submission in a YAML file, checked against ``abilities``; its files must be below the file's folder.

    Raises SubmissionError.
    """
    return read_with_jobs(path, abilities)[0]


def read_with_jobs(
    path: Path, abilities: Abilities, base_dir: Path | None = None
) -> tuple[SubmissionBase, list[Job[JobBase]]]:
    """The same with its jobs: checking made them, and of a large sweep making them again is as long as reading.

    ``base_dir``: where its files must be instead of beside it.
    """
    source = str(path)
    document = read_document(_decode(_read(path, source), source), source)
    return _validate(document, abilities, base_dir or path.absolute().parent)


def read_submission_text(
    text: str, source: str, abilities: Abilities, *, base_dir: Path | None = None
) -> SubmissionBase:
    """The submission in a YAML text that came from ``source``; files are looked for with a base_dir only.

    Raises SubmissionError.
    """
    return _validate(read_document(text, source), abilities, base_dir)[0]


def read_submission_data(
    data: Any, source: str, abilities: Abilities, *, base_dir: Path | None = None
) -> SubmissionBase:
    """The submission in parsed JSON (a request's body, a form), within YAML's limits; problems have no lines.

    Raises SubmissionError.
    """
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise SubmissionError(
            [Problem(source, None, "", "a submission is a mapping (name: ..., model: ...)")]
        )
    if problems := data_problems(data, source):
        raise SubmissionError(problems)
    return _validate(Document(source, data), abilities, base_dir)[0]


def _read(path: Path, source: str) -> bytes:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise SubmissionError([Problem(source, None, "", "is a folder; give a YAML file")])
        if not stat.S_ISREG(mode):  # a pipe or device could be endless
            raise SubmissionError([Problem(source, None, "", "is not a plain file")])
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SubmissionError([Problem(source, None, "", "there is no such file")]) from None
    except OSError as error:
        raise SubmissionError([Problem(source, None, "", f"can't be read: {error.strerror}")]) from error
    except ValueError:  # a NUL in the name
        raise SubmissionError([Problem(repr(source), None, "", "is no name of a file")]) from None


def _decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if len(data) > MAX_BYTES and error.start >= MAX_BYTES - 3:
            return data[: MAX_BYTES + 1].decode(
                "utf-8", "replace"
            )  # cut inside a character; refused as too large
        line = data.count(b"\n", 0, error.start) + 1
        message = f"not UTF-8 text: the byte 0x{data[error.start]:02x}; save the file as UTF-8"
        raise SubmissionError([Problem(source, line, "", message)]) from error


def _validate(
    document: Document, abilities: Abilities, base_dir: Path | None
) -> tuple[SubmissionBase, list[Job[JobBase]]]:
    document, unresolved = with_manifests(_under_current_names(document), abilities, base_dir)
    if not unresolved:
        document, unresolved = with_systems(document, abilities)
    if unresolved:  # of what they stand for nothing can be said
        raise SubmissionError(_in_order([*document.problems, *unresolved]))
    problems = list(document.problems)
    schema = _schema(document, abilities)
    submission: SubmissionBase | None = None
    try:
        submission = schema.model_validate(document.data)
    except ValidationError as error:
        for path, message in explain(error, document.data, schema, document.written):
            if not _follows_from_broken(path, document):
                problems.append(document.problem(path, message))
        problems += _independent(document, schema, abilities)
    files: dict[str, str] = {}
    jobs: list[Job[JobBase]] = []
    if submission is not None and not problems:
        jobs, more, files = _beyond_the_schema(submission, document, abilities, base_dir)
        problems += more
    told = submission
    if submission is not None and not problems and (specs := undecided(jobs)):
        told, problem = with_parts(submission, specs, abilities, base_dir)
        problems += [] if problem is None else [document.problem(*problem)]
    if problems or submission is None or told is None:
        raise SubmissionError(_in_order(problems))
    if files.items() - told.files.items():  # their contents are in the jobs' digests
        told = told.model_copy(update={"files": {**told.files, **files}})
    return told, jobs if told is submission else expand(told)


def _under_current_names(document: Document) -> Document:
    """The same with bounds of the objective called as today, in the sweep too; each keeps its line."""
    data = dict(document.data)
    if "slo" in data:
        data["slo"] = current_names(data["slo"])
    if isinstance(data.get("sweep"), dict):
        sweep = current_paths(data["sweep"])
        if isinstance(groups := sweep.get("zip"), list):
            sweep["zip"] = [current_paths(group) for group in groups]
        elif groups is not None:
            sweep["zip"] = current_paths(groups)
        data["sweep"] = sweep
    return replace(
        document,
        data=data,
        lines={current_field(path): line for path, line in document.lines.items()},
        broken={current_field(path) for path in document.broken},
        written={current_field(path): text for path, text in document.written.items()},
    )


def _schema(document: Document, abilities: Abilities) -> type[SubmissionBase]:
    """The schema that the submission's kind chooses; without a known kind nothing else can be said of it."""
    kind = document.data.get("kind", DEFAULT_KIND)
    if not isinstance(kind, str):
        message = f"must be one of: {', '.join(abilities.kinds)}; got {show(kind)}"
    elif kind not in abilities.kinds:
        message = unknown(abilities.kinds, kind)
    else:
        try:
            return abilities.schema(kind)
        except InputError as error:
            message = str(error)
    problems = [*document.problems]
    if ("kind",) not in document.broken:
        problems.append(document.problem(("kind",), message))
    raise SubmissionError(_in_order(problems))


def _follows_from_broken(path: FieldPath, document: Document) -> bool:
    """A value that could not be read has its message already."""
    return path in document.broken


def _independent(document: Document, schema: type[SubmissionBase], abilities: Abilities) -> list[Problem]:
    """What can be said although the submission as a whole is not valid: unknown names, the sweep."""
    kind = document.data.get("kind", DEFAULT_KIND)
    findings = abilities.unknown_names(kind, document.data)
    names = [document.problem(parts(finding.fields[0]), finding.message) for finding in findings]
    value = document.data.get("sweep")
    try:
        sweep = SweepSpec.model_validate(normal_sweep({} if value is None else value))
    except ValidationError:
        return names  # told with the rest of the schema's problems
    structure = check_structure(sweep, schema.job)
    return names + [document.problem(_as_written(document, path), text) for path, text in structure]


def _beyond_the_schema(
    submission: SubmissionBase, document: Document, abilities: Abilities, base_dir: Path | None
) -> tuple[list[Job[JobBase]], list[Problem], dict[str, str]]:
    """Its jobs, what is wrong with them and their files; and the digests of the files that count."""

    def locate(path: FieldPath) -> tuple[int | None, str]:
        place = _as_written(document, path)
        return document.line(place), dotted(place)

    jobs, problems = try_expand(submission, abilities, file=document.file, locate=locate)
    digests: dict[str, str] = {}
    if base_dir is not None:
        digests = content_digests((job.spec for job in jobs), base_dir)
        files: dict[str, Problem] = {}
        for job in jobs:
            findings = [*missing_files(job.spec, base_dir), *changed_files(job.spec, digests)]
            if not problems and not findings:
                findings += abilities.file_findings(job.spec, base_dir)
            for finding in findings:
                field = finding.fields[0]
                swept = next((p for p in job.point if contains(p, field) or contains(field, p)), None)
                place: FieldPath = ("sweep", swept) if swept else parts(field)
                files.setdefault(finding.message, Problem(document.file, *locate(place), finding.message))
        problems += files.values()
    return jobs, problems, digests


def _zip_is_mapping(document: Document) -> bool:
    sweep = document.data.get("sweep")
    return isinstance(sweep, Mapping) and isinstance(sweep.get("zip"), Mapping)


def _as_written(document: Document, path: FieldPath) -> FieldPath:
    """A path in the sweep as the user wrote it: one zip group needs no list around it."""
    if path[:3] == ("sweep", "zip", 0) and _zip_is_mapping(document):
        return ("sweep", "zip", *path[3:])
    return path


def _in_order(problems: list[Problem]) -> list[Problem]:
    """By line, each once, with an end."""
    unique = sorted(dict.fromkeys(problems), key=lambda p: p.line or 0)
    if len(unique) <= MAX_PROBLEMS:
        return unique
    rest = Problem(unique[0].file, None, "", f"and {len(unique) - MAX_PROBLEMS:,} more problems")
    return [*unique[:MAX_PROBLEMS], rest]


def refused(data: dict[str, Any], known: Abilities) -> str | None:
    """Why a submission can't be run here, as ``inferbench validate`` says; None if it can."""
    try:
        read_submission_data(data, str(data["name"]), known)
    except SubmissionError as error:
        return "; ".join(problem.message for problem in error.problems)
    return None
