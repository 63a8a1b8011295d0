"""What every stage has in common.

A stage module has ``STAGE``, ``Input``, ``Output`` and ``run(inp: Input, ctx: Context) -> Output``.
``STAGE`` holds the facts that plans are made of. ``Input`` holds the job and the outputs of the stages it
needs, each under that stage's name; input and output are small JSON. A stage runs without Airflow; the
operator only adapts.

Plans read the facts of all stages, and each task of Airflow makes its plan anew. So what takes long to import
(the load generator, the monitors, PerfDB, the report) is imported by the functions that use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.submission.schema import JobSpec

if TYPE_CHECKING:
    from inferbench_tasks.perfdb.under_lease import HeldLease

#: ``progress(done, total, text)``: total is None while unknown.
Progress = Callable[[float, float | None, str], None]


def no_progress(amount: float, total: float | None, text: str) -> None:
    """Take a stage's progress and show it nowhere."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a plan, and whoever runs it, has to know of a stage: ``STAGE`` of its module.

    ``needs``: the stages of the same job that come before it; those that its Input names hand it their
    outputs. ``leased``: it runs while the job holds its device; the first such stage of a job opens the
    lease, the last closes it and cleans up. ``retries``: how often it may be tried again after a failure;
    only what measures nothing may, since a second try would hide the first. ``block``: a job has this stage
    only if it has that block (an optional field of its schema, or a property). ``times``: it has it as often as that
    property says; the later ones have a name with their number (``contracts.stage_name``), and all are told it
    (``number`` of their Input). ``of_submission``: it runs once,
    after all jobs, whatever became of them. ``after``: stages of other jobs of the same point of the sweep, which
    stand before its own job; it waits for them, whatever became of them, and reads what they left in their runs'
    folders.

    ``asks``: its Output has ``ability``, what the host of the job's own device has to be able to do
    (``JobBase.needed_ability``), which shows only when it runs; it stands before the stages on the device.

    ``unread``: parts of its Input (``generate.model``) whose files it never opens. They are not brought to its host,
    and the paths in them stay references (``contracts.located``).

    ``in_child``: its work imports frameworks, which is left to a process of its own. Such a module has
    ``without_child(inp, ctx) -> Output | None`` too: the output where no child is needed (it is cached).
    """

    needs: tuple[str, ...] = ()
    leased: bool = False
    retries: int = 0
    in_child: bool = False
    block: str | None = None
    times: str | None = None
    of_submission: bool = False
    after: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    asks: bool = False


#: The field of an Output that says, where it is true, that its job has nothing more to do: what follows is skipped.
ENDS_JOB = "ends_job"


def name_of(module: ModuleType | str) -> str:
    """The stage's name: that of its module."""
    return (module if isinstance(module, str) else module.__name__).rpartition(".")[2]


def run_here(stage: ModuleType, inp: Handle, ctx: Context) -> Any:
    """A stage's output, worked out in this process."""
    return stage.run(inp, ctx)


@dataclass(frozen=True)
class Context:
    """What a stage may use of its surroundings.

    ``base_dir`` is the folder that a submission's relative paths start from. A stage checks
    ``cancelled()`` in long loops and raises CancelledError when it is true. One that needs another stage's
    work done on the way (for a neighbour's model) has it done by ``run_stage``.
    """

    data_dir: Path
    perfdb_uri: str | None = None
    base_dir: Path = field(default_factory=Path.cwd)
    progress: Progress = no_progress
    cancelled: Callable[[], bool] = lambda: False
    run_stage: Callable[[ModuleType, Handle, Context], Any] = run_here
    login: str | None = None
    """Who started the run, on a system with logins; None elsewhere and of a schedule."""
    leases: bool = False
    """Whether a scheduler leases devices to jobs; where none does all of them are run on this machine."""
    lease: HeldLease | None = None
    """What it works under on the job's devices: its results are written under that (``PerfDB.save_result``). None where
    nobody leases any."""

    def run_dir(self, run_id: str) -> Path:
        """The folder of one run: its requests, logs, samples and each stage's output."""
        path = self.data_dir / "runs" / run_id
        path.mkdir(parents=True, exist_ok=True)
        return path

    def cache_dir(self, name: str) -> Path:
        """A folder kept between runs (trained models, conversions, environments)."""
        path = self.data_dir / "cache" / name
        path.mkdir(parents=True, exist_ok=True)
        return path


class JobInput(Handle):
    """``run_id`` names the execution of the job ``job_id``; ``attempt`` starts at 1."""

    run_id: str
    job_id: str
    attempt: int = 1

    @property
    def child_key(self) -> str:
        """Inputs of one key may have their work done by one child after another; empty: by a new one."""
        return ""


class StageInput(JobInput):
    """The input of a stage of a serving job."""

    job: JobSpec

    @property
    def child_key(self) -> str:
        """The framework of a model that is ours; what a user brings gets a child of its own."""
        model = self.job.model
        if model.kind not in ("zoo", "canonical"):
            return ""
        return getattr(model, "framework", None) or "usual"
