"""What every job and every submission says, whatever its kind.

A kind of submission has a schema of its own for its jobs, a ``JobBase`` with the fields that only its jobs have; the
schema of its submissions is made of that (``submission_of``). The methods here tell the reader, the sweep and the
digest what they have to know of a job; like all of a ``Spec`` they touch no file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, create_model, field_validator, model_validator

from inferbench_tasks.contracts.device import CPU, DeviceId, DeviceSpec
from inferbench_tasks.contracts.spec import Count, RelativePath, Seconds, Sha256, Slug, Spec
from inferbench_tasks.submission.manifest_record import ManifestRecord
from inferbench_tasks.submission.slo import current_paths

#: The kind of a submission that names none.
DEFAULT_KIND: Final = "serving"


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file that a job names.

    ``field`` is the dotted path that holds its name, ``path`` its place below the submission's folder. ``counts``:
    its content decides what is measured, so that it is part of the job's digest.
    """

    field: str
    path: str
    may_be_folder: bool = False
    counts: bool = False


class JobBase(Spec):
    """One concrete point: what a submission says once its sweep is taken away."""

    #: Fields that came later, by dotted path, and the plain value at which they are no part of a job's digest.
    newer: ClassVar[dict[str, Any]] = {}
    #: The dotted path of the field that says how many devices a job needs, where there is one.
    devices_field: ClassVar[str] = "devices"
    #: The dotted path of the field that has stages run on another host, where there is one.
    elsewhere_field: ClassVar[str] = "kind"
    #: Dotted paths that tell the members of one point apart, and stand beside its swept values.
    member_fields: ClassVar[tuple[str, ...]] = ()

    name: Slug
    """Of the submission, its DAG and its results."""
    kind: Slug = DEFAULT_KIND
    """What is measured, and by which stages."""
    user: Slug = "anonymous"
    """Who asks: a person or team."""
    description: Annotated[str, Field(max_length=2000)] = ""
    """For people; shown in the UI and in reports."""
    tags: tuple[Slug, ...] = Field(default=(), strict=False, max_length=20)
    """To find it by."""
    priority: Annotated[int, Field(ge=-100, le=100)] = 0
    """Higher runs first."""
    expected_duration_s: Seconds | None = None
    """What you expect one job to take on its device; the scheduler's first estimate."""
    deadline_s: Seconds | None = None
    """Seconds after the submission by which the results are wanted."""
    on_devices: tuple[DeviceId, ...] = Field(default=(), strict=False, max_length=1000)
    """Ids of the registered devices that a running system may give it (`inferbench status` has them); any, by
    default."""
    files: dict[RelativePath, Sha256] = Field(default={}, max_length=100)
    """SHA-256 of the files whose content counts (traces), by path; filled in on reading, or given: then the file must
    have it."""
    manifests: tuple[ManifestRecord, ...] = Field(default=(), strict=False, max_length=1000)
    """To what the manifests that are named were resolved; filled in on reading, or given: then it has to be true."""
    block: Count | None = None
    """Which block of an interleaved sweep a job is of; set where a submission becomes jobs."""

    def needed_device(self) -> DeviceSpec:
        """The device that its stages on a device run on."""
        return CPU

    def only_on(self) -> tuple[str, ...]:
        """The ids of the devices that may be given to it; any without."""
        return self.on_devices

    def needed_devices(self) -> int:
        """How many devices of one host it holds at once."""
        return 1

    def needed_ability(self) -> str:
        """What the host of its own devices has to be able to do, beside having them, by the name under which workers
        tell that theirs is not (``Device.lacks``); "": nothing.
        """
        return ""

    def stages_elsewhere(self) -> tuple[str, ...]:
        """The names of its stages that run on a device of another host, which it then holds beside its own."""
        return ()

    def hosts_elsewhere(self) -> dict[str, int]:
        """Which of several other hosts such a stage runs on, from 1; those that are not named run on the first."""
        return {}

    def n_elsewhere(self) -> int:
        """Of how many other hosts it holds a device each."""
        return max(self.hosts_elsewhere().values(), default=1) if self.stages_elsewhere() else 0

    def elsewhere_by(self) -> str:
        """The field that has stages of this one run on another host, where there are several."""
        return self.elsewhere_field

    def chosen_elsewhere(self) -> bool:
        """Whether the devices that it names (``only_on``) are those of other hosts, too, and not its own alone."""
        return False

    def needed_elsewhere(self) -> DeviceSpec:
        """That device."""
        return CPU

    def named_elsewhere(self) -> str:
        """The name of the host, or of the cluster, that it has to be of; "": any other than the job's own."""
        return ""

    def needed_cores(self) -> tuple[int, str]:
        """How many cores of each device it can't do without, and the field that says so; 0: any number will do."""
        return 0, ""

    def named_files(self) -> Iterator[NamedFile]:
        """The files that it names."""
        yield from ()

    @classmethod
    def at_point(cls, data: dict[str, Any], swept: Collection[str]) -> dict[str, Any]:
        """What is asked for at one point of a sweep over these paths, as plain data, without what has no meaning there
        for the value that the sweep gives another field.
        """
        return data

    @classmethod
    def members(cls, data: dict[str, Any]) -> list[dict[str, Any]]:
        """The jobs that one point of a sweep stands for, as plain data; one unless the kind says otherwise."""
        return [data]


SweepValues = Annotated[list[Any], Field(min_length=1, max_length=1000)]
#: Blocks of an interleaved sweep: as many pairs as a night takes, and the fewest of which an interval can be made.
USUAL_BLOCKS, LEAST_BLOCKS, MOST_BLOCKS = 8, 4, 200
#: What stands under ``sweep`` beside paths.
SWEEP_KEYS = ("zip", "order", "blocks")


class SweepSpec(Spec):
    """The sweep: every combination of the ``grid`` with every row of each ``zip`` group.

    In YAML the grid's entries stand directly under ``sweep:`` and ``zip``, ``order`` and ``blocks`` beside them.
    Keys are dotted paths into the submission ("serve.threads").
    """

    grid: dict[str, SweepValues] = {}
    """Dotted path -> values; every combination."""
    zip: list[dict[str, SweepValues]] = []
    """Groups of dotted path -> values, equally long, taken row by row."""
    order: Literal["listed", "interleaved"] = "listed"
    """``interleaved``: all points again and again in blocks, forwards and backwards in turns (A B, B A, A B, ...)."""
    blocks: Annotated[int, Field(ge=LEAST_BLOCKS, le=MOST_BLOCKS, multiple_of=2)] | None = None
    """How many blocks an interleaved sweep has: an even number, so that as many go forwards as backwards."""

    @model_validator(mode="after")
    def _blocks_need_the_order(self) -> SweepSpec:
        if self.blocks is not None and self.order == "listed":
            raise ValueError("blocks go with order: interleaved only")
        return self

    @property
    def repeats(self) -> int:
        """How often each point is measured."""
        return 1 if self.order == "listed" else self.blocks or USUAL_BLOCKS


class SubmissionBase(JobBase):
    """A user's YAML, validated. Jobs come from ``sweep.expand``, which validates each of them again."""

    #: The schema of its jobs.
    job: ClassVar[type[JobBase]] = JobBase

    sweep: SweepSpec | None = None
    """Dotted paths with lists of values: every combination becomes a job."""

    @field_validator("sweep", mode="before")
    @classmethod
    def _normal_sweep(cls, value: Any) -> Any:
        return normal_sweep(value)


def normal_sweep(value: Any) -> Any:
    """A sweep as a user writes it, with the grid's entries in ``grid`` and every path under its name of today."""
    if not isinstance(value, dict):
        return value
    dumped = set(value) <= {"grid", *SWEEP_KEYS} and isinstance(value.get("grid"), dict)
    grid = value["grid"] if dumped else {k: v for k, v in value.items() if k not in SWEEP_KEYS}
    groups = value.get("zip", [])
    groups = [groups] if isinstance(groups, dict) else groups
    paths = [current_paths(group) for group in groups] if isinstance(groups, list) else groups
    order = {name: value[name] for name in ("order", "blocks") if name in value}
    return {"grid": current_paths(grid), "zip": paths, **order}


@cache
def submission_of(job: type[JobBase]) -> type[SubmissionBase]:
    """The schema of the submissions whose jobs are of that schema: its fields, and a sweep at their end."""
    # Of fields that both have, pydantic takes the first base's: those of the job are meant.
    own = {name: (job.model_fields[name].annotation, job.model_fields[name]) for name in JobBase.model_fields}
    make: Any = create_model
    schema: type[SubmissionBase] = make(
        f"{job.__name__}Submission", __base__=(SubmissionBase, job), __module__=job.__module__, **own
    )
    schema.job = job
    return schema
