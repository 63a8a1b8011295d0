"""Replay: the same run again; what in the environment differs, and whether the figures agree."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.analysis.certainty import Change, of_one_run
from inferbench_tasks.analysis.stated import stated
from inferbench_tasks.dotted import flatten
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.submission.schema import Submission

#: Facts of the environment that differ between any two runs and say nothing.
_FLEETING = ("environment.system.host",)


def submission_of(result: ResultDocument) -> Submission:
    """The job of a result as a submission of one run; InputError if the result does not hold it."""
    job = result.provenance.model_dump().get("job")
    if not job:
        raise InputError(f"The result of {result.run_id} does not hold its job; it can't be replayed.")
    if job["model"]["kind"] == "file" or job.get("requests", {}).get("kind") == "files":
        raise InputError(
            f"{result.run_id} used files beside its submission, which PerfDB does not keep: run that submission again."
        )
    # Stored as JSON, so in the lax mode that JSON needs (lists for tuples).
    return Submission.model_validate_json(_json({**job, "sweep": None}))


def environment_differences(then: ResultDocument, now: ResultDocument) -> list[dict[str, Any]]:
    """{what, then, now} of everything that could change a figure and is not the same."""
    before, after = _facts(then), _facts(now)
    return [
        {"what": path, "then": before.get(path), "now": after.get(path)}
        for path in dict.fromkeys([*before, *after])
        if before.get(path) != after.get(path) and path not in _FLEETING
    ]


def agreement(then: ResultDocument, now: ResultDocument) -> list[dict[str, Any]]:
    """{figure, unit, then, now, ratio, agrees} of the figures that a replay is judged by and that either run has.

    They agree where no difference is shown, as in a comparison of so many figures (``differences``). ``agrees`` is None
    where nobody can tell: one run lacks the figure (it is withheld, or too few requests support it), or does not count.
    """
    before, after = (run.model_dump(include={"summary"}) for run in (then, now))
    rows = []
    figures = [
        f
        for f in FIGURES.on("replay")
        if (f.stored(before["summary"]), f.stored(after["summary"])) != (None, None)
    ]
    for figure in figures:
        old, new = figure.stored(before["summary"]), figure.stored(after["summary"])
        agrees: bool | None = None
        if old is not None and new is not None and then.valid and now.valid:
            first = of_one_run(old, stated=stated(figure, before))
            second = of_one_run(new, stated=stated(figure, after))
            agrees = not Change.between(first, second).excludes_none(len(figures))
        rows.append(
            {
                "figure": figure.name,
                "unit": figure.unit,
                "then": old,
                "now": new,
                "ratio": new / old if old and new is not None else None,
                "agrees": agrees,
            }
        )
    return rows


def _facts(result: ResultDocument) -> dict[str, Any]:
    return flatten(
        {
            "environment": result.environment,
            "versions": result.provenance.versions,
            "commit": result.provenance.git_sha,
            "backend": {"kind": result.backend.kind, "version": result.backend.version},
            "device": result.device.name,
            "model": result.model.digest,
        }
    )


def _json(value: Any) -> str:
    import json

    return json.dumps(value)
