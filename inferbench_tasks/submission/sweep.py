"""A submission's sweep, expanded into its jobs: one concrete point each."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, overload

from pydantic import ValidationError

from inferbench_tasks.dotted import contains, last, parts, set_at, value_at
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.problem import MAX_PROBLEMS, FieldPath, Problem, compact, did_you_mean, dotted
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.base import JobBase, SubmissionBase, SweepSpec
from inferbench_tasks.submission.digest import LABELS, job_digest
from inferbench_tasks.submission.explain import explain
from inferbench_tasks.submission.fields import DISCRIMINATORS, all_paths, bounds_figure
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import JobSpec, Submission

SpecT_co = TypeVar("SpecT_co", bound=JobBase, covariant=True)

MAX_JOBS = 10_000
#: What was asked for, or is filled in, and is no part of what a job measures.
RECORDS = ("files", "manifests", "systems")
#: Digits of the spec's digest in a job's id.
ID_DIGITS = 12

#: From a path (``("sweep", "serve.threads", 2)``) to its line, and to the path as the user wrote it.
Locate = Callable[[FieldPath], tuple[int | None, str]]


def _without_lines(path: FieldPath) -> tuple[None, str]:
    return None, dotted(path)


@dataclass(frozen=True)
class Job(Generic[SpecT_co]):
    """One concrete point, the unit of scheduling.

    ``index`` is its place in the sweep: the last key varies fastest, ``zip`` groups after the grid; in an interleaved
    sweep its place among all jobs of all blocks. ``digest`` is the canonical one of what it asks for.
    ``job_id`` is the submission's name and the start of that digest: it stays the same while the
    job asks for the same, wherever in a sweep it stands. ``point`` has the swept values by dotted path, and what tells
    apart the jobs that one point stands for (``member_fields``).
    """

    index: int
    digest: str
    job_id: str
    point: dict[str, Any]
    spec: SpecT_co


def job_id(name: str, digest: str) -> str:
    """The id of the job of that digest in the submission of that name."""
    return f"{name}-{digest[:ID_DIGITS]}"


@overload
def expand(submission: Submission, abilities: Abilities | None = None) -> list[Job[JobSpec]]: ...


@overload
def expand(submission: SubmissionBase, abilities: Abilities | None = None) -> list[Job[JobBase]]: ...


def expand(submission: SubmissionBase, abilities: Abilities | None = None) -> list[Any]:
    """All jobs of a submission, each validated again; SubmissionError with every problem at once.

    Without ``abilities`` the jobs are not checked against what can be asked for: a reader has done that.
    """
    jobs, problems = try_expand(submission, abilities, file=f"submission {submission.name}")
    if problems:
        raise SubmissionError(problems)
    return jobs


SubmissionT = TypeVar("SubmissionT", bound=SubmissionBase)


def each_job_once(submission: SubmissionT, what: str) -> SubmissionT:
    """The same; InputError where its sweep is interleaved, for ``what`` measures its jobs in an order of its own."""
    if submission.sweep is not None and submission.sweep.order == "interleaved":
        raise InputError(
            f"{what} measures the jobs of a sweep in an order of its own; take order: interleaved out",
            field="sweep.order",
        )
    return submission


def try_expand(
    submission: SubmissionBase, abilities: Abilities | None, *, file: str, locate: Locate = _without_lines
) -> tuple[list[Job[JobBase]], list[Problem]]:
    """The jobs that are fine, and what is wrong with the others, at the sweep's lines."""
    sweep = submission.sweep or SweepSpec()
    base = submission.model_dump(mode="json", exclude={"sweep"}, exclude_defaults=True)
    each = len(submission.job.members(base))
    structural = [
        Problem(file, *locate(path), text) for path, text in check_structure(sweep, submission.job, each)
    ]
    if structural:
        return [], structural
    expansion = _Expansion(submission, sweep, abilities, file, locate)
    for places in _points(sweep):
        expansion.add(places)
        if expansion.wrong > MAX_PROBLEMS:
            break  # nobody reads more of them
        if expansion.count > MAX_JOBS:  # a sweep over ``share`` itself
            text = f"makes more than the {MAX_JOBS:,} jobs that are allowed"
            return [], [Problem(file, *locate(("sweep",)), text)]
    problems = list(expansion.problems.values())
    if sweep.order == "listed" or problems:
        return expansion.jobs, problems
    return interleaved(expansion.jobs, sweep.repeats), problems


def interleaved(jobs: list[Job[JobBase]], blocks: int) -> list[Job[JobBase]]:
    """All jobs in each block, every second block backwards: what drifts steadily hits each of them alike."""
    order = [(block, job) for block in range(blocks) for job in (jobs if block % 2 == 0 else jobs[::-1])]
    return [
        replace(job, index=index, spec=job.spec.model_copy(update={"block": block + 1}))
        for index, (block, job) in enumerate(order)
    ]


def count_jobs(sweep: SweepSpec | None) -> int:
    """The number of jobs of a sweep with a sound structure."""
    return 1 if sweep is None else count_points(sweep) * sweep.repeats


def count_points(sweep: SweepSpec) -> int:
    """The number of its points."""
    rows = [len(next(iter(group.values()))) for group in sweep.zip if group]
    return math.prod([*(len(values) for values in sweep.grid.values()), *rows])


def check_structure(sweep: SweepSpec, job: type[JobBase], each: int = 1) -> list[tuple[FieldPath, str]]:
    """What is wrong with a sweep over jobs of a schema whatever it sweeps, as (path, message).

    ``each``: the jobs that one point stands for.
    """
    problems: list[tuple[FieldPath, str]] = []
    places: list[tuple[str, FieldPath, list[Any]]] = [
        (path, ("sweep", path), values) for path, values in sweep.grid.items()
    ]
    for number, group in enumerate(sweep.zip):
        places += [(path, ("sweep", "zip", number, path), values) for path, values in group.items()]
    place_of: dict[str, FieldPath] = {}
    for path, place, values in places:
        if problem := _path_problem(path, job, hint=len(problems) < MAX_PROBLEMS):
            problems.append((place, problem))
        elif clash := next((other for other in place_of if _overlap(other, path)), None):
            what = "is swept twice" if clash == path else f"overlaps with {clash}, which is swept too"
            problems.append((place, f"{what}; each value may come from one place only"))
        place_of[path] = place
        if len(place) == 2:  # a zip's column may repeat a value; its rows may not repeat
            problems += [
                ((*place, i), f"repeats an earlier value, {compact(v)}") for i, v in _repeated(values)
            ]
    for number, group in enumerate(sweep.zip):
        rows = [list(row) for row in zip(*group.values(), strict=False)]
        problems += [
            (("sweep", "zip", number), f"row {i + 1} repeats an earlier one, {compact(row)}")
            for i, row in _repeated(rows)
        ]
        lengths = {path: len(values) for path, values in group.items()}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{path} has {count}" for path, count in lengths.items())
            problems.append((("sweep", "zip", number), f"the lists of a zip must be equally long; {counts}"))
        if not group:
            problems.append(
                (("sweep", "zip", number), "an empty zip; give it dotted paths with lists of values")
            )
    if not problems and sweep.order == "interleaved" and count_points(sweep) < 2:
        problems.append(
            (
                ("sweep", "order"),
                "interleaved compares points in turns; sweep a field that has two values at least",
            )
        )
    if not problems and (count := count_jobs(sweep) * each) > MAX_JOBS:
        of_each = f", {each} for each point (share.beside, evaluate.parts)" if each > 1 else ""
        problems.append((("sweep",), f"makes {count:,} jobs{of_each}; at most {MAX_JOBS:,} are allowed"))
    return problems


def _path_problem(path: str, job: type[JobBase], *, hint: bool) -> str | None:
    top = parts(path)[0]
    measured = ", ".join(
        k for k in job.model_fields if k not in LABELS and k not in ("kind", "system", *RECORDS)
    )
    if path == "kind":
        return f"kind can't be swept: a submission is of one kind; sweep what is below: {measured}"
    if top in LABELS or top in ("sweep", *RECORDS):
        return f"{top} can't be swept, since it changes nothing that is measured; sweep what is below: {measured}"
    known = all_paths(job)
    if path not in known and not ("slo" in job.model_fields and bounds_figure(path)):
        near = did_you_mean(path, known - LABELS) if hint else ""
        example = "serve.threads" if "serve.threads" in known else max(known - LABELS - {"files"}, key=len)
        return f"no field of a submission{near or f'; give a dotted path such as {example}'}"
    return None


def _overlap(one: str, other: str) -> bool:
    return contains(one, other) or contains(other, one)


def _repeated(values: list[Any]) -> list[tuple[int, Any]]:
    repeats = []
    keys: set[str] = set()
    for index, value in enumerate(values):
        key = repr(_comparable(value))
        if key in keys:
            repeats.append((index, value))
        keys.add(key)
    return repeats


def _comparable(value: Any) -> Any:
    """1 and 1.0 are one value here, true is another; the order of keys doesn't count."""
    if isinstance(value, dict):
        return sorted((str(k), repr(_comparable(v))) for k, v in value.items())
    if isinstance(value, list):
        return [_comparable(v) for v in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


#: One swept value: its dotted path, where it stands, the value.
_Place = tuple[str, FieldPath, Any]


def _points(sweep: SweepSpec) -> Iterator[list[_Place]]:
    """The points of a sweep in their order."""
    axes: list[list[list[_Place]]] = [
        [[(path, ("sweep", path, i), value)] for i, value in enumerate(values)]
        for path, values in sweep.grid.items()
    ]
    for number, group in enumerate(sweep.zip):
        length = len(next(iter(group.values())))
        axes.append(
            [
                [(path, ("sweep", "zip", number, path, i), values[i]) for path, values in group.items()]
                for i in range(length)
            ]
        )
    for combination in itertools.product(*axes):
        yield [place for row in combination for place in row]


@dataclass
class _Expansion:
    """Gathers jobs and problems; a problem that many jobs share is told once."""

    submission: SubmissionBase
    sweep: SweepSpec
    abilities: Abilities | None
    file: str
    locate: Locate
    jobs: list[Job[JobBase]] = field(default_factory=list)
    problems: dict[tuple[FieldPath, str], Problem] = field(default_factory=dict)
    _digests: dict[str, int] = field(default_factory=dict)
    count: int = 0
    #: How many of the jobs can't be.
    wrong: int = 0

    def __post_init__(self) -> None:
        # Without its defaults, so that a swept kind or family does not meet another's fields.
        base = self.submission.model_dump(mode="json", exclude={"sweep"}, exclude_defaults=True)
        self._base = pickle.dumps(base)

    def add(self, places: list[_Place]) -> None:
        """Make the job of a point, or those of its share; or note why they can't be."""
        data = pickle.loads(self._base)  # noqa: S301 - ours, of a moment ago; a deep copy takes 5 times as long
        for path, _, value in places:
            set_at(data, path, copy.deepcopy(value))
        data = self.submission.job.at_point(data, [path for path, _, _ in places])
        for member in self.submission.job.members(data):
            own = {
                path: value
                for path in self.submission.job.member_fields
                if (value := value_at(member, path)) is not None and value != value_at(data, path)
            }
            self._add(self.count, places, member, own)
            self.count += 1

    def _add(self, index: int, places: list[_Place], data: dict[str, Any], own: dict[str, Any]) -> None:
        try:
            spec = self.submission.job.model_validate(data)
        except ValidationError as error:
            self.wrong += 1
            for at, message in explain(error, data, type(self.submission)):
                self._add_invalid(index, places, at, message)
            return
        findings = self.abilities.findings(spec) if self.abilities is not None else []
        for finding in findings:
            self._add_impossible(index, places, finding)
        if findings:
            self.wrong += 1
            return
        digest = job_digest(spec)
        if digest in self._digests:
            self.wrong += 1
            text = f"jobs {self._digests[digest] + 1} and {index + 1} of the sweep are the same ({_show(places)})"
            self._note(("sweep",), text)
            return
        self._digests[digest] = index
        point = {path: value for path, _, value in places} | own
        self.jobs.append(Job(index, digest, job_id(self.submission.name, digest), point, spec))

    def _add_invalid(self, index: int, places: list[_Place], at: FieldPath, message: str) -> None:
        """A value is wrong by itself (told where it stands), or only at this point."""
        where = dotted(at)
        for path, place, _ in places:
            if where == path or where.startswith((path + ".", path + "[")):
                deeper = at[len(parts(path)) :]
                self._note((*place, *deeper), f"{where}: {message}")
                return
        text = f"{where}: {message}"
        kinds = [p.rpartition(".")[0] for p, _, _ in places if last(p) in DISCRIMINATORS]
        whole = next((path for path in kinds if where.startswith(path + ".")), None)
        advice = f"; sweep {whole} as a whole, a mapping for each value" if whole else ""
        self._note(("sweep",), f"{text} (job {index + 1}: {_show(places)}){advice}", text)

    def _add_impossible(self, index: int, places: list[_Place], finding: Finding) -> None:
        involved = [p for p in places if any(_overlap(p[0], f) for f in finding.fields)]
        if not involved:
            at: FieldPath = parts(finding.fields[0])
            self._note(at, finding.message)
        elif len(finding.fields) == 1:
            place = involved[0][1]
            self._note(place, f"{finding.fields[0]}: {finding.message}")
        else:
            place = involved[0][1][:-1] if len(involved) == 1 else ("sweep",)
            text = f"{finding.fields[0]}: {finding.message}"
            self._note(place, f"{text} (job {index + 1}: {_show(places)})", text)

    def _note(self, at: FieldPath, message: str, same: str | None = None) -> None:
        """``same`` is what makes it the same problem in another job; the message by default."""
        self.problems.setdefault((at, same or message), Problem(self.file, *self.locate(at), message))


def _show(places: list[_Place]) -> str:
    return ", ".join(f"{path}={compact(value)}" for path, _, value in places)
