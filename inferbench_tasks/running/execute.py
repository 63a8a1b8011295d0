"""Run one node of a plan: the border where a stage's outcome is recorded, with or without Airflow."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from inferbench_tasks import private, settings
from inferbench_tasks.contracts.located import CARRIER
from inferbench_tasks.errors import CancelledError, InferBenchError, InputError, StageError, StorageError
from inferbench_tasks.interrupt import deferred
from inferbench_tasks.plan.graph import Node
from inferbench_tasks.running.failure import record_failure
from inferbench_tasks.running.fence import Fence, Holding, require_chosen
from inferbench_tasks.running.invocation import Invocation
from inferbench_tasks.running.lease import MachineLease
from inferbench_tasks.running.perform import perform
from inferbench_tasks.running.telling import Telling
from inferbench_tasks.stages.base import ENDS_JOB, Context

if TYPE_CHECKING:
    from pydantic import BaseModel

    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.stores.depot import Depot

log = logging.getLogger(__name__)


def never() -> bool:
    """Cleaning up and reporting are not cancelled: they are what a cancelled run ends with."""
    return False


#: Progress is told at most this often per stage; the watcher draws no faster.
TELL_INTERVAL_S = 0.1


def execute_node(
    node: Node,
    outputs: Mapping[str, dict[str, Any]],
    *,
    invocation: Invocation,
    attempt: int = 1,
    base_dir: Path,
    data_dir: Path | None = None,
    hold_machine: bool = True,
    cancelled: Callable[[], bool] = lambda: False,
    fence: Fence | None = None,
    login: str | None = None,
) -> dict[str, Any]:
    """Run a node's stage and record how it went, in PerfDB and in the invocation's events.

    ``outputs`` holds the outputs of earlier stages by name; the stage's Input takes what it declares.
    ``hold_machine``: keep other jobs off this machine from the job's first node to its last; not needed
    where a scheduler leases devices. ``fence``: the devices that a scheduler leased to the job. ``login``: who
    started it, where there are logins.
    Returns the stage's output as JSON. Every failure leaves here as an InferBenchError.
    """
    from inferbench_tasks.manifests.used import UsedManifests
    from inferbench_tasks.perfdb.store import PerfDB

    stage, job_index = node.stage, node.job_index
    data_dir = data_dir or settings.data_dir()
    db = PerfDB.connect(settings.perfdb_uri(), data_dir)
    run_id = None if job_index is None else invocation.run_id(job_index)
    telling = Telling(invocation, db, run_id)
    context = Context(
        data_dir=data_dir,
        perfdb_uri=db.uri,
        base_dir=base_dir,
        progress=_teller(telling, stage, job_index),
        cancelled=never if node.concludes else (lambda: cancelled() or invocation.cancelled()),
        login=login,
        leases=not hold_machine,
    )
    lease = MachineLease(settings.machine_dir(data_dir)) if hold_machine and run_id is not None else None
    started = time.monotonic()
    ended = False
    holding: Holding | None = None
    #: The lease that the run is under as far as this stage knows: one of a former lease does not end it.
    under: str | None = None
    # A signal raises anywhere: outside of this block it would leave a run that nobody ended.
    try:
        with deferred():
            if run_id is not None:
                db.start_run(run_id, invocation.id, node.input["job_id"], node.input["job"], login=login)
                under = db.stage_started(run_id, stage, attempt, cleans_up=node.cleans_up)
                if named := node.input["job"].get("manifests"):
                    UsedManifests(db).remember(named, run_id)
            telling(event="start", stage=stage, job=job_index)
        if context.cancelled():
            raise CancelledError("The run was cancelled.")
        if lease and run_id is not None:
            waited = lease.acquire(
                run_id,
                lasting=invocation.is_local(),
                say=lambda text: context.progress(0, None, text),
                cancelled=context.cancelled,
            )
            if waited:  # it begins now, and its times say so
                with deferred():
                    db.stage_started(run_id, stage, attempt, cleans_up=node.cleans_up)
            if lease.forsaken:
                from inferbench_tasks.running.killed import end_forsaken

                end_forsaken(db, data_dir, lease.forsaken)
            started = time.monotonic()
        holding = fence.enter(db) if fence and not node.cleans_up else None
        if fence:
            context = replace(context, lease=holding.lease if holding else fence.left(db))
        if holding:
            holding.require(elsewhere=node.elsewhere)
        elif node.elsewhere:
            raise InputError(f"{stage} runs on another host than its job's, and nobody leased a device there")
        if holding and run_id is not None:
            require_chosen(node.input["job"], holding)
        if holding and run_id is not None:
            under = holding.nonce
            db.stage_holds(run_id, stage, attempt, holding.members, under)
        module = importlib.import_module(node.module)
        values = {**node.input, **outputs, **_execution(node, invocation, attempt, holding)}
        inp = {name: value for name, value in values.items() if name in module.Input.model_fields}
        depot = None if invocation.is_local() or run_id is None else _depot(db, context, run_id)
        with holding.used() if holding else contextlib.nullcontext():
            if depot:
                depot.expect(inp, module.STAGE.unread)
            ready = module.Input.model_validate(inp, context={CARRIER: depot} if depot else None)
            output = perform(module, ready, context)
        if fence and holding:
            fence.check(db, holding)
        # What runs on a device is used by what follows on that device, and what is kept of it goes to PerfDB. Of a job
        # on two hosts the stages on its devices hand on files too.
        travels = depot is not None and (node.lease is None or node.apart)
        result: dict[str, Any] = output.model_dump(mode="json", context={CARRIER: depot} if travels else None)
        if depot is not None and travels:
            depot.flush()
        seconds = time.monotonic() - started
        folder = invocation.dir if run_id is None else context.run_dir(run_id)
        with deferred():
            # At once: that it is there says that its stage has ended (``conclude``).
            private.write(folder / f"{stage}.json", _to_keep(output, without=node.apart))
            ended = node.last or bool(result.get(ENDS_JOB))
            if run_id is not None:
                kept = without_secrets(result) if node.apart else result
                # A stage that gives back what its job held once does not end the run that goes on elsewhere.
                ends = ended and not (holding is None and fence is not None and fence.superseded(db))
                db.stage_finished(
                    run_id, stage, attempt, output=kept, duration_s=seconds, last=ends, lease=under
                )
    except BaseException as raised:
        error = _as_error(raised, stage)
        # Once the device is taken, the node that gives it back follows whatever fails, and ends the job.
        ended = node.last or node.opens or node.lease is None
        state: Literal["cancelled", "failed"] = "cancelled" if isinstance(error, CancelledError) else "failed"
        if state == "cancelled":  # by whoever asked for it: no defect to look for
            log.info("stage cancelled stage=%s job=%s: %s", stage, job_index, error)
        else:
            log.exception("stage failed stage=%s job=%s", stage, job_index)
        refused = isinstance(error, InputError)
        telling(event="end", stage=stage, job=job_index, state=state, error=str(error), refused=refused)
        telling.close()
        if run_id is not None:
            failed = partial(
                db.stage_failed, run_id, stage, attempt, state=state, error=str(error), lease=under
            )
            record_failure(
                lambda: holding is None and fence is not None and fence.superseded(db),
                lambda ends: failed(ends_run=ends),
            )
        if isinstance(raised, Exception):
            raise error from raised
        raise
    finally:
        if lease and run_id is not None and ended:
            lease.release(run_id)
    telling(event="end", stage=stage, job=job_index, state="done", seconds=seconds)
    telling.close()
    return result


def _depot(db: PerfDB, context: Context, run_id: str) -> Depot:
    """What carries files between this host and those where the job's other stages run."""
    from inferbench_tasks.stores.depot import Depot

    return Depot(
        db,
        context.data_dir,
        folders=[context.base_dir],
        run_dir=context.run_dir(run_id),
        told=context.progress,
        cancelled=context.cancelled,
    )


def _to_keep(output: BaseModel, *, without: bool) -> str:
    """A stage's output for who looks into its folder; ``without``: its secrets, which nobody reads from there."""
    text = output.model_dump_json(indent=1)
    return json.dumps(without_secrets(json.loads(text)), indent=1, ensure_ascii=False) if without else text


def without_secrets(value: Any) -> Any:
    """A stage's output without what lets others in while it lasts: a later stage gets it, and nobody keeps it."""
    if isinstance(value, dict):
        return {name: without_secrets(part) for name, part in value.items() if name != "secret"}
    return [without_secrets(part) for part in value] if isinstance(value, list) else value


def _execution(node: Node, invocation: Invocation, attempt: int, holding: Holding | None) -> dict[str, Any]:
    """What an Input may hold of this execution."""
    if node.job_index is not None:
        devices = holding.devices if holding else ()
        spare = holding.spare_cores if holding else ()
        own = {"run_id": invocation.run_id(node.job_index), "attempt": attempt}
        return {**own, "devices": devices, "spare_cores": spare}
    run_ids = [invocation.run_id(index) for index in range(node.input["jobs"])]
    return {"invocation_id": invocation.id, "run_ids": run_ids}


def _as_error(raised: BaseException, stage: str) -> InferBenchError:
    if isinstance(raised, InferBenchError):
        return raised
    if isinstance(raised, (KeyboardInterrupt, SystemExit)):
        return CancelledError(f"Stopped during {stage}.")
    if isinstance(raised, OSError) and raised.errno is not None:
        return StorageError(f"{raised.strerror}: {raised.filename or ''}".rstrip(": "))
    return StageError(f"{type(raised).__name__}: {raised}")


def _teller(
    telling: Telling, stage: str, job_index: int | None
) -> Callable[[float, float | None, str], None]:
    last = 0.0

    def tell(amount: float, total: float | None, text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= TELL_INTERVAL_S or (total is not None and amount >= total):
            last = now
            telling(event="progress", stage=stage, job=job_index, done=amount, total=total, text=text)

    return tell
