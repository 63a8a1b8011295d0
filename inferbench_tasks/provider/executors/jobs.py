"""Which job a task belongs to, and the job as the policy sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.cluster.abilities import unable
from inferbench_tasks.cluster.apart import too_few_hosts
from inferbench_tasks.cluster.store import TTL_S, Cluster
from inferbench_tasks.cluster.view import ClusterView
from inferbench_tasks.cluster.waiting import too_few
from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.errors import UnknownKindError
from inferbench_tasks.perfdb.documents import RunDocument, StageRecord
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.base import job_of, pipeline_of
from inferbench_tasks.plan.overrides import overridden
from inferbench_tasks.provider.on_device import LeasedTask, LeaseRequest
from inferbench_tasks.provider.submit.standing import claim_s, may_hurry
from inferbench_tasks.running.invocation import Invocation
from inferbench_tasks.scheduling.estimator import Estimator, hard_limit_s
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.submission.base import JobBase
from inferbench_tasks.submission.schema import READY_TIMEOUT_S

#: Three times a short estimate would stop a healthy job whose model loads slowly for once: this holds one usual start
#: (``READY_TIMEOUT_S``) and a minute, as three times any longer estimate does.
LEAST_LIMIT_S = 180.0
#: So many finished runs teach a new scheduler its estimates.
LEARN_FROM = 2000
#: Between what a stage took by CLOCK_MONOTONIC and by its times lies what it takes to record both: milliseconds.
MOST_SET_S = 2.0


def job_of_task(ti: Any, task: LeasedTask) -> JobKey:
    """The job of a task on a device."""
    return JobKey(ti.dag_id, ti.run_id, task.job_index)


def perfdb_run(key: JobKey) -> str:
    """The job's run in PerfDB."""
    invocation = Invocation.of_dag_run(settings.data_dir(), key.dag_id, key.dag_run_id)
    return invocation.run_id(key.job_index)


def queued_job(
    key: JobKey,
    request: LeaseRequest,
    conf: Mapping[str, Any],
    submit_s: float,
    estimator: Estimator,
    cluster: Cluster | ClusterView,
    login: str | None = None,
    fetching: Callable[[JobBase], float] = lambda spec: 0.0,
) -> QueuedJob:
    """The job for the policy. ``conf``: what its trigger changed of what it asks for; ``fetching``: the seconds that
    its hosts take at most to have what was made for them. These are beside the limit, and part of the estimate until a
    run tells how long it took. Beside the limit is, too, what starts may take until they give up by themselves
    (``Pipeline.starts_s``), beyond the one usual start that any limit holds: who says then what did not start is the
    start, not the limit.

    Fair share goes by ``login``, whatever user the submission names; by that user only where a schedule started it.
    Priority and expected duration count as far as the login's role goes.
    """
    changed = overridden({"job": request.job}, conf)
    spec = job_of(changed["job"])
    declared_s = claim_s(spec, login)
    for name, usual in request.scaled_by.items():
        declared_s *= (conf.get(name) or usual) / usual
    fetch_s = fetching(spec)
    starts_s = max(0.0, pipeline_of(spec).starts_s(spec) - READY_TIMEOUT_S)
    kind = f"{request.series}{changed['job_id']}"
    work_s = estimator.estimate_s(kind, declared_s)
    own = device_types(spec.needed_device(), cluster)
    elsewhere: frozenset[str] = frozenset()
    if spec.stages_elsewhere():
        elsewhere = device_types(spec.needed_elsewhere(), cluster)
    attempt, lost = cluster.history(str(key))
    if elsewhere and lost and not _hosts_but_for(lost, spec, own, elsewhere, cluster):
        # Of two hosts it needs both: it waits for that one's return, as often as any job is run again.
        lost = frozenset()
    left_out = _left_out(request, conf, cluster)
    ability, n_devices = request.ability or spec.needed_ability(), spec.needed_devices()
    if (
        ability
        and lost
        and not elsewhere
        and not _able_but_for(lost | left_out, ability, n_devices, own, spec.only_on(), cluster)
    ):
        # No other can do what it needs: it is tried there again, as often as any job is run again.
        lost = frozenset()
    avoid = frozenset(lost) | left_out
    others: frozenset[str] = frozenset()
    if wanted := spec.only_on():
        # Those that register from now on are not among them: results say which device it was.
        others = frozenset(device.device_id for device in cluster.devices()) - set(wanted) - avoid
    return QueuedJob(
        job_id=str(key),
        tenant=login or spec.user,
        spec_hash=kind,
        submit_s=submit_s,
        est_s=work_s if estimator.knows(kind) else work_s + fetch_s,
        limit_s=max(LEAST_LIMIT_S, request.least_limit_s, hard_limit_s(work_s)) + fetch_s + starts_s,
        device_types=own,
        n_devices=n_devices,
        priority=spec.priority if may_hurry(login) else min(spec.priority, 0),
        deadline_s=None if spec.deadline_s is None else submit_s + spec.deadline_s,
        attempt=attempt,
        avoid=avoid | others,
        elsewhere=elsewhere,
        not_its_own=others if elsewhere and not spec.chosen_elsewhere() else frozenset(),
        elsewhere_on=spec.named_elsewhere() if elsewhere else "",
        n_elsewhere=max(1, spec.n_elsewhere()),
        ability=ability,
    )


def _hosts_but_for(
    lost: Collection[str],
    spec: JobBase,
    own: frozenset[str],
    elsewhere: frozenset[str],
    cluster: Cluster | ClusterView,
) -> bool:
    """Whether hosts enough for such a job are there without the devices that it was lost on."""
    left = [d for d in cluster.devices() if d.present(TTL_S) and d.device_id not in lost]
    wanted = spec.only_on()
    if wanted and spec.chosen_elsewhere():
        left = [d for d in left if d.device_id in wanted]
    not_its_own = frozenset(d.device_id for d in left if wanted and d.device_id not in wanted)
    not_its_own |= unable(spec.needed_ability(), left)
    named, others = spec.named_elsewhere(), max(1, spec.n_elsewhere())
    return too_few_hosts(own, elsewhere, left, not_its_own, named, others) is None


def _able_but_for(
    avoided: frozenset[str],
    ability: str,
    n_devices: int,
    types: frozenset[str],
    wanted: Collection[str],
    cluster: Cluster | ClusterView,
) -> bool:
    """Whether a host with so many devices that can do what a job needs is there without those; ``wanted``: the only
    ones that it may have, all where there are none."""
    left = [
        device
        for device in cluster.devices()
        if device.present(TTL_S)
        and device.device_type in types
        and device.device_id not in avoided
        and (not wanted or device.device_id in wanted)
        and not device.lacks(ability)
    ]
    return bool(left) and too_few(left, n_devices, " or ".join(sorted(types))) is None


def _left_out(
    request: LeaseRequest, conf: Mapping[str, Any], cluster: Cluster | ClusterView
) -> frozenset[str]:
    """The devices of the kinds that its trigger named."""
    kinds = set(conf.get(request.leaves_out) or ()) if request.leaves_out else set()
    return frozenset(d.device_id for d in cluster.devices() if d.name in kinds) if kinds else frozenset()


def device_types(device: DeviceSpec, cluster: Cluster | ClusterView) -> frozenset[str]:
    """``cpu``; ``gpu:<type>``: that type; ``gpu``: every type of GPU that is registered."""
    if device.kind == "gpu" and not device.detail:
        types = {d.device_type for d in cluster.devices() if d.device_type != "cpu"}
        return frozenset(types or {"gpu"})
    return frozenset({device.detail or device.kind})


def learnt(db: PerfDB) -> Estimator:
    """Estimates from the runs that PerfDB holds, oldest first."""
    estimator = Estimator()
    for run in reversed(db.find_runs({"status": "done"}, limit=LEARN_FROM)):
        if (seconds := leased_s(run)) is not None:
            estimator.observe(run.job_id, seconds)
    return estimator


def leased_s(run: RunDocument) -> float | None:
    """How long a run held its device: from the start of its last opening stage to the end of its closing one.

    Both are by PerfDB's clock. None, too, where a stage took less or more by CLOCK_MONOTONIC: that clock was set
    meanwhile, or the stage waited for the machine, or for a PerfDB that was away, which the next run need not.
    """
    try:
        leased = pipeline_of(run.job).leased
    except UnknownKindError:  # of a package that is not installed any more
        return None
    names = [name for name in leased if run.stage(name)]
    opening = max((s for s in run.stages if s.stage in names[:1]), key=_tried, default=None)
    closing = max((s for s in run.stages if s.stage in names[-1:] and s.ended_at), key=_tried, default=None)
    if opening is None or closing is None or closing.ended_at is None:
        return None
    of_it = [s for s in run.stages if s.stage in names and s.started_at >= opening.started_at]
    if any(abs(_clock_set_s(stage)) > MOST_SET_S for stage in of_it):
        return None
    seconds = (closing.ended_at - opening.started_at).total_seconds()
    return seconds if seconds > 0 else None


def _tried(stage: StageRecord) -> tuple[int, datetime]:
    """Tries in their order: times alone may be of hosts whose clocks lie apart, in runs of earlier versions."""
    return stage.attempt, stage.started_at


def _clock_set_s(stage: StageRecord) -> float:
    """By how much longer it took from start to end by PerfDB's clock than by CLOCK_MONOTONIC, which begins once it has
    the machine; 0 where that was not stored."""
    if stage.ended_at is None or stage.duration_s is None:
        return 0.0
    return (stage.ended_at - stage.started_at).total_seconds() - stage.duration_s
