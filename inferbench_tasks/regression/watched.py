"""The figures of nights, whatever kind of submission they are of, and the submissions that nights can be of."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any

from inferbench_tasks.abilities import InstalledAbilities
from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.pipelines.base import PIPELINES, pipeline_of
from inferbench_tasks.pipelines.watched import Watched
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.base import DEFAULT_KIND, SubmissionBase
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.sweep import each_job_once

log = logging.getLogger(__name__)

#: ``systems`` is decided where a side runs it, and by whoever holds a device for that; to compare, its form will do.
_FORM = InstalledAbilities(form_alone=True)


def watched(kind: str) -> Watched:
    """What nights watch of a kind; InputError of one that they don't."""
    found = PIPELINES.load(kind).watched()
    if found is None:
        raise InputError(f"nights watch nothing of submissions of kind {kind!r}")
    return found


def figure_named(name: str) -> Figure:
    """A figure of a series; InputError for a name that is none."""
    return _of_others().get(name) or FIGURES.named(name)


def sizes_nights(figure: str) -> bool:
    """Whether a night has as many pairs as this figure needs: the first of its kind."""
    return figure in {kind.figures[0].name for kind in _all().values()}


def comparable(file: Path, what: str, abilities: Abilities = _FORM) -> SubmissionBase:
    """The submission of a file; InputError where ``what`` can't set runs of it side by side."""
    submission: SubmissionBase = read_submission(file, abilities)
    if (systems := getattr(submission, "systems", None)) is not None and systems.all:
        raise InputError(
            f"{what} is of one kind of system, on which both sides run; leave all out, and make a submission for each",
            field="systems.all",
        )
    checked: SubmissionBase = pipeline_of(submission).for_nights(submission, what)
    return each_job_once(checked, what)


def bisects(submission: Any) -> bool:
    """Whether its nights look for the commit of what they confirm; kinds without the block ``nightly`` don't."""
    nightly = getattr(submission, "nightly", None)
    return nightly is not None and nightly.bisect


def _all() -> dict[str, Watched]:
    found = {}
    for kind in PIPELINES:
        try:
            of = PIPELINES.load(kind).watched()
        except InferBenchError as error:  # a package's: nights of other kinds go on
            log.warning("kind left out of the nights kind=%s: %s", kind, error)
            continue
        if of is not None:
            found[kind] = of
    return found


@cache
def _of_others() -> dict[str, Figure]:
    return {
        figure.name: figure for kind, of in _all().items() if kind != DEFAULT_KIND for figure in of.figures
    }
