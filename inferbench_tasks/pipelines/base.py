"""A pipeline: what one kind of submission may say, the stages that its jobs go through, and what is known of them.

What is known of a stage stands on the stage's own module (``STAGE``); a pipeline lists the modules. Whoever runs,
schedules or shows a job asks its pipeline, or the nodes of its plan, and knows no kind and no stage by name.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import PlainValidator, SerializeAsAny

from inferbench_tasks import settings
from inferbench_tasks.contracts.stage_name import numbered
from inferbench_tasks.errors import InputError, UnknownKindError
from inferbench_tasks.launchers import records
from inferbench_tasks.output import OutputFormat, emit, say
from inferbench_tasks.registry import Registry
from inferbench_tasks.stages.base import Stage, name_of
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.base import DEFAULT_KIND, JobBase, SubmissionBase, submission_of
from inferbench_tasks.submission.finding import Finding

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.sections import Section
    from inferbench_tasks.contracts.verdict import Verdict
    from inferbench_tasks.perfdb.ask import Ask
    from inferbench_tasks.perfdb.documents import ResultBase, RunDocument
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.pipelines.watched import Watched

SpecT = TypeVar("SpecT", bound=JobBase)
#: What a job takes on its device, seconds, where neither its submission nor its pipeline says.
UNKNOWN_S = 60.0


@dataclass(frozen=True, slots=True)
class StageEntry:
    """A stage of a pipeline: its name, the module that has it, its facts. ``number``: of those of one job, from 1."""

    name: str
    module: str
    facts: Stage
    number: int = 1

    @property
    def stage(self) -> str:
        """The name of all of its kind in a job."""
        return name_of(self.module)

    def of(self, job: JobBase) -> tuple[StageEntry, ...]:
        """As often as a job has it: not at all without its block."""
        if self.facts.of_submission or (self.facts.block and getattr(job, self.facts.block) is None):
            return ()
        times = getattr(job, self.facts.times) if self.facts.times else 1
        return tuple(
            replace(self, name=numbered(self.name, number), number=number) for number in range(1, times + 1)
        )


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a trigger may change: the dotted path in the submission, and what its form allows (JSON schema).

    The submission's own schema has the last word.
    """

    path: str
    form: dict[str, Any] = field(default_factory=dict)


#: Of every submission.
PARAMETERS = {
    "user": Parameter("user", {"type": "string", "maxLength": 100, "description": "Who asks for it."}),
    "priority": Parameter(
        "priority",
        {"type": "integer", "minimum": -100, "maximum": 100, "description": "Higher runs first."},
    ),
}


class Pipeline(Generic[SpecT]):
    """What one kind of submission is made of; a pipeline is one instance, which registers by its ``kind``.

    ``job`` is the schema of its jobs. ``stages``: the modules of its stages in the order in which a job goes through
    them; those that are ``of_submission`` stand last. ``parameters``: what a trigger may change, in the order of its
    form. ``patience``: the dotted path of the field that says how long a job waits for a quiet machine; None where it
    does not wait.
    """

    kind: str
    job: type[SpecT]
    stages: tuple[str, ...]
    parameters: Mapping[str, Parameter] = PARAMETERS
    patience: str | None = None

    @cached_property
    def submission(self) -> type[SubmissionBase]:
        """The schema of its submissions."""
        return submission_of(self.job)

    def unknown_names(self, data: Mapping[str, Any], abilities: Abilities) -> Sequence[Finding]:
        """Names that nothing here has, in a submission that need not be valid otherwise."""
        return ()

    def findings(self, spec: SpecT, abilities: Abilities) -> Sequence[Finding]:
        """What is impossible about a job although each of its values is allowed."""
        return ()

    def file_findings(self, spec: SpecT, base_dir: Path, abilities: Abilities) -> Sequence[Finding]:
        """What is wrong with the contents of the files that a job names; they are there, below ``base_dir``."""
        return ()

    def stored_findings(self, spec: SpecT, base_dir: Path, ask: Ask) -> Sequence[Finding]:
        """What is impossible about a job by what PerfDB has of its models; ``ask`` only where that may be."""
        return ()

    def warnings(self, spec: SpecT) -> dict[str, str]:
        """What will run although it can't answer what is asked: a name for each -> the message."""
        return {}

    def expected_s(self, spec: SpecT) -> float:
        """The first guess of what a job takes on its device, until runs of it have been seen; seconds."""
        return UNKNOWN_S

    def length_s(self, spec: SpecT) -> float:
        """What a job is expected to take on its device: as its submission says, else as the pipeline guesses."""
        return spec.expected_duration_s or self.expected_s(spec)

    def starts_s(self, spec: SpecT) -> float:
        """What a job's starts may take until each gives up by itself; seconds. Its limit leaves them that."""
        return 0.0

    def row(self, spec: SpecT) -> dict[str, Any]:
        """What lists of jobs say of one, beside its device."""
        return {}

    def facts(self, submission: Any) -> dict[str, str]:
        """What a submission's DAG says of it, beside its user, jobs and digest."""
        return {}

    def tags(self, submission: Any) -> tuple[str, ...]:
        """What its DAG is found by, beside the submission's own tags."""
        return (self.kind,)

    def result(self) -> type[ResultBase]:
        """The schema of its jobs' results. Imported where it is asked for: plans are made without PerfDB."""
        raise NotImplementedError

    def without_figures(self, run: RunDocument, verdict: Verdict) -> ResultBase:
        """The result of a run that failed or was cancelled; fields of the kind's own need defaults for this one."""
        from inferbench_tasks.perfdb.finalise import common_fields

        return self.result().model_validate(common_fields(run, verdict))

    def finalise(self, db: PerfDB, run_ids: Sequence[str]) -> list[str]:
        """Write the results of those of these runs that ended without one; their ids. See ``perfdb.finalise``."""
        from inferbench_tasks.perfdb.finalise import finalise

        return finalise(db, run_ids, self.result(), self.without_figures, self.entries[0].name)

    def figures(self, result: Any) -> dict[str, Any]:
        """What lists and pages show of a result, by title."""
        return {}

    def described(self, result: Any) -> dict[str, Any]:
        """What a result was made with, by title, as its page shows it."""
        return {}

    def downloads(self, result: Any) -> dict[str, str]:
        """What there is of a result over REST: title -> path below the API."""
        return {}

    def job_again(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """A stored job as the plain data of a submission that runs it again."""
        return dict(job)

    def again(self, then: Any, results: Sequence[Any]) -> Any:
        """The one of a replay's results that is set beside ``then``; None without one."""
        return results[0] if results else None

    def agreement(self, then: Any, now: Any) -> list[dict[str, Any]]:
        """Whether two runs of one job agree, figure by figure: see ``analysis.report.replay.agreement_of``.

        InputError for runs that have no figures of their own.
        """
        raise InputError(f"runs of kind {self.kind!r} have no figures that a replay is judged by")

    def watched(self) -> Watched | None:
        """What nights watch of its results; None where they watch nothing."""
        return None

    def for_nights(self, submission: Any, what: str) -> Any:
        """The submission; InputError where ``what`` (a nightly comparison, say) can't set its runs side by side."""
        if self.watched() is None:
            known = [kind for kind in PIPELINES if PIPELINES.load(kind).watched() is not None]
            raise InputError(
                f"{what} needs a submission of kind {' or '.join(known)}; {submission.name} is of kind {self.kind}"
            )
        return submission

    def surroundings(self, result: Any) -> dict[str, Any]:
        """What a result's figures depend on, beside its environment and its versions."""
        return {}

    def sections(self, db: PerfDB, run_ids: Sequence[str]) -> Sequence[Section]:
        """Charts and tables of runs, which the page of a run draws; none unless the kind has some."""
        return ()

    def show(self, results: Sequence[Any], report: Path | None, output: OutputFormat) -> None:
        """Print what came out of an invocation, the runs in the order of the sweep; data only for JSON and YAML."""
        rows = [
            {"run_id": result.run_id, **self.figures(result), "verdict": str(result.verdict)}
            for result in results
        ]
        emit(rows, output)
        if report is not None and output is OutputFormat.table:
            say(f"report    {report}")

    def end_left_behind(self, spec: SpecT, data_dir: Path, run_id: str) -> bool:
        """End what a run's process left running when it was killed; whether there was anything."""
        return records.end_run(settings.servers_dir(data_dir), run_id)

    @cached_property
    def entries(self) -> tuple[StageEntry, ...]:
        """All its stages; InputError for a list that no plan can be made of."""
        entries = tuple(
            StageEntry(name_of(module), module, importlib.import_module(module).STAGE)
            for module in self.stages
        )
        self._check(entries)
        return entries

    def of_job(self, job: SpecT) -> tuple[StageEntry, ...]:
        """The stages that a job goes through: without those of blocks that it does not have."""
        return tuple(one for entry in self.entries for one in entry.of(job))

    def entry_of(self, stage: str) -> StageEntry | None:
        """The entry of a job's stage by its name, whichever of several it is; None of another pipeline's."""
        by_name = {entry.name: entry for entry in self.entries}
        if stage in by_name:
            return by_name[stage]
        plain, _, number = stage.rpartition("_")
        one = by_name.get(plain) if number.isdigit() else None
        return one if one and one.facts.times else None

    @property
    def leased(self) -> tuple[str, ...]:
        """The names of the stages that run while a job holds its device."""
        return tuple(entry.name for entry in self.entries if entry.facts.leased)

    def of_submission(self) -> tuple[StageEntry, ...]:
        """The stages that follow all jobs."""
        return tuple(entry for entry in self.entries if entry.facts.of_submission)

    def _check(self, entries: tuple[StageEntry, ...]) -> None:
        before: set[str] = set()
        lease = ""
        for entry in entries:
            if entry.name in before:
                raise InputError(f"The pipeline {self.kind!r} has two stages {entry.name!r}.")
            if missing := set(entry.facts.needs) - before:
                raise InputError(
                    f"The pipeline {self.kind!r}: {entry.name} needs {', '.join(sorted(missing))}, which must "
                    f"stand before it; before it stand: {', '.join(sorted(before)) or 'none'}"
                )
            if entry.facts.leased and lease == "closed":
                raise InputError(
                    f"The pipeline {self.kind!r}: {entry.name} needs the device, which a stage before it has "
                    "given back; the stages on the device must stand together"
                )
            lease = "open" if entry.facts.leased else "closed" if lease else ""
            before.add(entry.name)


#: Submissions name their pipeline by ``kind``.
PIPELINES: Registry[Pipeline[Any]] = Registry(
    "kind of submission",
    "inferbench.pipelines",
    {
        "bricks": "inferbench_tasks.pipelines.bricks:BRICKS",
        "serving": "inferbench_tasks.pipelines.serving:SERVING",
        "training": "inferbench_tasks.pipelines.training:TRAINING",
    },
)


def pipeline_of(document: Mapping[str, Any] | JobBase) -> Pipeline[Any]:
    """The pipeline of a job or submission, or of its document; UnknownKindError if it is not installed (any more)."""
    kind = document.kind if isinstance(document, JobBase) else document.get("kind", DEFAULT_KIND)
    return PIPELINES.load(str(kind))


def job_of(document: Mapping[str, Any]) -> JobBase:
    """A job's document, validated by the schema of its kind."""
    spec: JobBase = pipeline_of(document).job.model_validate_json(json.dumps(document))
    return spec


def submission_in(value: Any) -> SubmissionBase:
    """A submission, or its document, as a submission of its kind."""
    if isinstance(value, SubmissionBase):
        return value
    # As JSON, since documents were stored as such: lists stand for tuples.
    return pipeline_of(value).submission.model_validate_json(json.dumps(value))


#: A field for submissions of any kind, in what is written down as JSON.
AnySubmission = Annotated[SerializeAsAny[SubmissionBase], PlainValidator(submission_in)]


def results_of(db: PerfDB, run: RunDocument, attempt: int | None = None) -> list[ResultBase]:
    """A run's results by the schema of its kind, the last attempt first; none of a kind that is not installed."""
    try:
        schema = pipeline_of(run.job).result()
    except UnknownKindError:
        return []
    where = {"run_id": run.run_id} | ({"attempt": attempt} if attempt else {})
    return list(db.results_of(schema, where, sort=(("attempt", -1),)))
