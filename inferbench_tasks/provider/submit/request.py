"""What a form, a REST call or a client asks to run: a submission's text, data or name, and what it changes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.problem import MAX_PROBLEMS, Problem, did_you_mean, show
from inferbench_tasks.provider.submit.standing import within_role
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.base import SubmissionBase
from inferbench_tasks.submission.bounds import data_problems
from inferbench_tasks.submission.fields import bounds_figure
from inferbench_tasks.submission.reader import read_submission, read_submission_data, read_submission_text
from inferbench_tasks.submission.schema import serving_only
from inferbench_tasks.submission.slo import current_name, current_names

#: How problems call a submission that came without a file.
SOURCE = "submission"
#: Before a figure had one name, the form's bounds began with it: ``slo_latency_p99_ms`` is ``p99_ms``.
_EARLIER_PREFIX = "slo_"
_SUFFIXES = (".yaml", ".yml")


class SubmissionRequest(BaseModel):
    """One of ``submission`` and ``name``; the other fields change what it says."""

    model_config = ConfigDict(extra="forbid")

    submission: str | dict[str, Any] | None = Field(
        None, description="A submission, as YAML text or as data."
    )
    name: str | None = Field(
        None, max_length=300, description="Or one of the submissions folder: its path there, without .yaml."
    )
    user: str | None = Field(None, description="Who asks for it; the login's name unless given.")
    priority: int | None = Field(None, description="Higher runs first, -100 to 100.")
    slo: dict[str, Any] | None = Field(None, description="Bounds that replace the submission's own.")

    @model_validator(mode="before")
    @classmethod
    def _within_limits(cls, value: Any) -> Any:
        """A submission's own reader has its limits; what stands beside it has the same."""
        if isinstance(value, dict):
            beside = {key: field for key, field in value.items() if key != "submission"}
            if problems := data_problems(beside, SOURCE):
                # No ValueError: pydantic would quote the value, which may be too deep or no text.
                raise SubmissionError(problems)
        return value

    @field_validator("slo", mode="before")
    @classmethod
    def _names_of_today(cls, value: Any) -> Any:
        return current_names(value)

    @classmethod
    def of_parameters(cls, parameters: dict[str, Any]) -> SubmissionRequest:
        """From the parameters of the ``submit`` DAG; a blank field of a form is nothing."""
        filled = {key: value for key, value in parameters.items() if value not in (None, "")}
        rest = {key: value for key, value in filled.items() if key in cls.model_fields}
        bounds = {
            current_name(key.removeprefix(_EARLIER_PREFIX)): value
            for key, value in filled.items()
            if key not in cls.model_fields and (key in FIGURES or key.startswith(_EARLIER_PREFIX))
        }
        return cls.model_validate({**rest, **({"slo": {**rest.get("slo", {}), **bounds}} if bounds else {})})

    def parameters(self) -> dict[str, Any]:
        """The inverse: the ``conf`` of a run of the ``submit`` DAG."""
        fields = self.model_dump(exclude_none=True, exclude={"slo"})
        return {**fields, **(self.slo or {})}


@dataclass(frozen=True)
class Resolved:
    """A submission that validates, and the folder of the files that it names."""

    submission: SubmissionBase
    base_dir: Path


def resolve(
    request: SubmissionRequest, folder: Path, *, login: str | None = None, abilities: Abilities = INSTALLED
) -> Resolved:
    """What was asked for, validated against ``abilities``; SubmissionError with every problem.

    ``folder``: the submissions folder; a text may name files below it. ``login`` becomes the user of a
    submission that names none, and its role says which priority and expected duration count.
    """
    submission, base_dir = _read(request, folder, abilities)
    changes: dict[str, Any] = {}
    if request.user is not None:
        changes["user"] = request.user
    elif login and submission.user == "anonymous":
        changes["user"] = re.sub(r"[^A-Za-z0-9_-]+", "-", login).strip("-_") or "anonymous"
    if request.priority is not None:
        changes["priority"] = request.priority
    if request.slo:
        if unknown := [name for name in request.slo if not bounds_figure(f"slo.{name}")]:
            raise SubmissionError(
                [Problem(SOURCE, None, f"slo.{n}", _unknown_bound(n)) for n in unknown[:MAX_PROBLEMS]]
            )
        own = serving_only(submission, "A bound of the SLO").slo
        bounds = own.model_dump(mode="json") if own else {}
        changes["slo"] = {**bounds, **request.slo}
    if changes:
        document = {**submission.model_dump(mode="json"), **changes}
        submission = read_submission_data(document, SOURCE, abilities, base_dir=base_dir)
    return Resolved(submission if login is None else within_role(submission, login), base_dir)


def decided(request: SubmissionRequest, resolved: Resolved) -> SubmissionRequest:
    """The request with the systems that were chosen for it: who registers or leaves meanwhile changes nothing."""
    if request.name is not None or getattr(resolved.submission, "system", None) is None:
        return request
    return request.model_copy(update={"submission": resolved.submission.model_dump(mode="json")})


def names(folder: Path) -> list[str]:
    """The submissions folder's files, each as its path there without the ending."""
    paths = (p.relative_to(folder) for p in folder.rglob("*") if p.suffix in _SUFFIXES)
    return sorted(p.with_suffix("").as_posix() for p in paths)


def _read(request: SubmissionRequest, folder: Path, abilities: Abilities) -> tuple[SubmissionBase, Path]:
    document = request.submission if request.submission not in ("", {}) else None
    if (document is None) == (request.name is None):
        text = "both are given" if document else "nothing is given"
        raise SubmissionError(
            [Problem(SOURCE, None, "", f"give a submission (YAML) or the name of one; {text}")]
        )
    if isinstance(document, str):
        return read_submission_text(document, SOURCE, abilities, base_dir=folder), folder
    if document is not None:
        return read_submission_data(document, SOURCE, abilities, base_dir=folder), folder
    assert request.name is not None
    choices = names(folder)
    if request.name not in choices:
        more = did_you_mean(request.name, choices) or f"; there are: {', '.join(choices)}"
        problem = f"no submission {show(request.name)} in the submissions folder{more}"
        raise SubmissionError([Problem(SOURCE, None, "name", problem)])
    path = next(p for s in _SUFFIXES if (p := folder / f"{request.name}{s}").exists())
    return read_submission(path, abilities), path.parent


def _unknown_bound(name: str) -> str:
    bounds = [figure.name for figure in FIGURES.offered()]
    return f"unknown bound{did_you_mean(name, bounds)}; known: {', '.join(bounds)}"
