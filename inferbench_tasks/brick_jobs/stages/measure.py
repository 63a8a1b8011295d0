"""Stage ``measure``: one shard's bricks and whole models, in a session on the leased device."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs import shard_files
from inferbench_tasks.brick_jobs.cutting import ToMeasure
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.stages import assign
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.errors import CancelledError, StageError
from inferbench_tasks.stages.base import Context, JobInput, Stage

if TYPE_CHECKING:
    from inferbench_tasks.brick_jobs.store import PerfDBResults
    from inferbench_tasks.bricks.measure.session import Session

log = logging.getLogger(__name__)

STAGE = Stage(needs=("assign",), leased=True)


class Input(JobInput):
    """``devices``: that which was leased."""

    job: BricksJob
    assign: assign.Output
    devices: tuple[HeldDevice, ...] = ()


class Output(Handle):
    """``stored``: identities whose times are in PerfDB now; ``failed``: identity -> why it can't be timed.

    ``disturbed``: why these times are bounds, which nobody else uses. ``session``: under which they are stored.
    ``seconds``: what the session took; ``wholes_s``: what of it went into each whole model, loading and first runs
    included. ``went_on``: from an attempt that was ended or disturbed, whose time is not in ``seconds``; ``earlier_s``:
    what of it went into rounds that are used here. ``steal_ratios``: what the hypervisor took of the cores in each of
    these, None where the kernel does not tell; ``stolen_rounds``: so many do not count for it. ``home``: of the host
    that it was timed on (``settings.home_id``), and its ``environment``, package ``versions`` and ``git`` state; all
    empty in outputs of before.
    """

    session: str
    stored: tuple[str, ...]
    failed: dict[str, str]
    disturbed: str | None
    rounds: int
    good_rounds: int
    levels: tuple[float, ...]
    seconds: float
    wholes_s: dict[str, float] = {}
    went_on: bool = False
    earlier_s: float = 0.0
    steal_ratios: tuple[float | None, ...] = ()
    stolen_rounds: int = 0
    home: str = ""
    environment: dict[str, Any] = {}
    versions: dict[str, str | None] = {}
    git: tuple[str | None, bool | None] = (None, None)


def run(inp: Input, ctx: Context) -> Output:
    """Time what nobody stored since; a network that can't be run is left out, and the others go on.

    StageError where the device is not like that which the models were cut for; LeaseLostError, and nothing more is
    stored, once it is not the job's any more.
    """
    from inferbench_tasks.brick_jobs.places import place_here
    from inferbench_tasks.brick_jobs.store import PerfDBResults, result_of, session_name
    from inferbench_tasks.bricks.measure import journal
    from inferbench_tasks.bricks.measure.session import BrickFailed, setting, why_not
    from inferbench_tasks.monitors import environment
    from inferbench_tasks.perfdb.store import PerfDB

    job = inp.job
    if inp.assign.folder is None:
        raise StageError("assign handed on no networks; clear the job's tasks from assign on")
    found = shard_files.read(Path(inp.assign.folder), inp.assign.models)
    cores = cores_of(inp.devices, job.bricks.threads)
    here = setting(cores, job.bricks.threads, job.bricks.runtime)
    if here != found.setting:
        raise StageError(
            f"the models were cut for {found.setting}; this device is {here}. Bricks are cut on the system's own host, "
            "and timed on devices that are like it: choose those (on_devices)"
        )
    began = time.monotonic()
    method = job.measure.method
    session: Session | None = None
    disturbed: str | None = None
    failed: dict[str, str] = {}
    with PerfDB.connect(ctx.perfdb_uri, ctx.data_dir) as db:
        results = PerfDBResults(db, here, ctx.lease, place_here(db, ctx.data_dir))
        name = session_name(inp.run_id, inp.attempt)
        shard = found.todo
        todo, stored = _left(shard, results, inp.run_id)
        # One journal for all of the shard: what failed, or is stored already, does not cost the others their rounds.
        names = [one.item.name for one in shard]
        only = inp.run_id if job.measure.reuse == "never" else None
        with journal.session_file(journal.sessions(ctx.data_dir), names, here, method, only) as path:
            went_on = bool(stored) or (path is not None and path.exists())
            while todo and session is None:
                try:
                    session = _session(todo, cores, results.base_ns(), path, name, inp, ctx)
                except BrickFailed as error:
                    log.warning("a network can't be timed identity=%s why=%s", error.item, error.why)
                    failed[error.item] = error.why
                    todo = [one for one in todo if one.item.name != error.item]
            if session is not None:
                disturbed, at = why_not(session, method), results.now()
                if disturbed is None:
                    session = results.at_base(session, name, at)
                for one in todo:
                    timed = session.timed[one.item.name]
                    results.put(result_of(one, timed, here, method, name, disturbed, at, results.place))
                    stored.append(one.item.name)
            if session is None or disturbed is None or not session.good_rounds:
                journal.done(path)  # else who measures again goes on from the rounds that count
    return Output(
        session=name, stored=tuple(stored), failed=failed, disturbed=disturbed, rounds=session.rounds if session else 0,
        good_rounds=session.good_rounds if session else 0, levels=tuple(session.levels) if session else (),
        seconds=time.monotonic() - began, wholes_s=_wholes_s(todo, session), went_on=went_on,
        earlier_s=session.earlier_s if session else 0.0, steal_ratios=session.steal_ratios if session else (),
        stolen_rounds=len(session.stolen_ratios) if session else 0, home=settings.home_id(ctx.data_dir),
        environment={"hardware": environment.hardware(), "system": environment.system()},
        versions=environment.versions(), git=environment.git_state(),
    )  # fmt: skip


def _wholes_s(timed: Sequence[ToMeasure], session: Session | None) -> dict[str, float]:
    if session is None:
        return {}
    return {one.item.name: session.taken_s[one.item.name] for one in timed if one.item.whole}


def cores_of(devices: Sequence[HeldDevice], threads: int) -> list[int]:
    """The last cores of the leased device, one for each thread; without a lease those of this process."""
    from inferbench_tasks.bricks.measure.session import cores_for

    if not devices or not devices[0].cores:
        return cores_for(threads)
    cores = sorted(devices[0].cores)
    if threads > len(cores):
        raise StageError(f"{threads} threads need as many cores; the device has {len(cores)}")
    return cores[-threads:]


def _left(
    todo: Sequence[ToMeasure], results: PerfDBResults, run_id: str
) -> tuple[list[ToMeasure], list[str]]:
    """What an attempt of this run that was killed has not stored yet, and what it has."""
    own = results.of_runs([run_id], [one.item.name for one in todo])
    stored = [name for name, result in own.items() if result.disturbed is None]
    return [one for one in todo if one.item.name not in stored], stored


def _session(
    todo: Sequence[ToMeasure], cores: list[int], base_ns: dict[str, float] | None, journal: Path | None, attempt: str,
    inp: Input, ctx: Context,
) -> Session:  # fmt: skip
    from inferbench_tasks.bricks.measure.session import run_session

    def tell(done: float, of: float, what: str) -> None:
        if ctx.cancelled():
            raise CancelledError("Cancelled while measuring.")
        ctx.progress(done, of, what)

    with tempfile.TemporaryDirectory(prefix="inferbench-bricks-") as folder:
        return run_session(
            [one.item for one in todo], Path(folder), inp.job.measure.method,
            threads=inp.job.bricks.threads, cores=cores, base_ns=base_ns, journal=journal, attempt=attempt,
            progress=tell, runtime=inp.job.bricks.runtime,
        )  # fmt: skip
