"""The executor: tasks of a job that need a device wait here until the policy gives their job one.

Tasks without a device go to the host queue at once. The task that opens a job's lease (``serve``) is held (state
``queued``, queue ``HOLD``) until its job has a lease that the device's worker confirmed; then it and the job's later
tasks on the device go to that device's queue, one job at a time. A Celery queue is first in, first out, so nothing is
published before it may start: what waits can be re-ordered, and no dead worker's queue strands a job (late binding).
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache, partial
from typing import Any

from airflow.executors.workloads import ExecuteTask
from airflow.models.taskinstancekey import TaskInstanceKey

# Registers the Celery tasks when a worker starts.
from airflow.providers.celery.executors import celery_executor_utils  # noqa: F401
from airflow.providers.celery.executors.celery_executor import CeleryExecutor

from inferbench_tasks import settings
from inferbench_tasks.cluster.dispatcher import Action, Dispatcher
from inferbench_tasks.cluster.hosts import Hosts
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.cluster.versions import own
from inferbench_tasks.cluster.view import ClusterView
from inferbench_tasks.cluster.waiting import Asker, waiting_by_login, waiting_jobs
from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.contracts.part import MARK
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.launchers import records
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.executors import dag_runs, files_read, job_tasks, task_queues
from inferbench_tasks.provider.executors.cleaning import Cleaning
from inferbench_tasks.provider.executors.ended import EndedRuns
from inferbench_tasks.provider.executors.fetched import fetch_s
from inferbench_tasks.provider.executors.host_slots import HostSlots, HostTask
from inferbench_tasks.provider.executors.jobs import job_of_task, learnt, perfdb_run, queued_job
from inferbench_tasks.provider.executors.leased import NO_SHOW_S, LeasedJobs
from inferbench_tasks.provider.executors.lost import Messages, Sent
from inferbench_tasks.provider.executors.signed import send, signing_key
from inferbench_tasks.provider.executors.turns import Turns
from inferbench_tasks.provider.executors.watch import FolderWatch, dag_files
from inferbench_tasks.provider.on_device import LeasedTask, LeaseRequest
from inferbench_tasks.provider.parts.shelf import PartShelf
from inferbench_tasks.provider.queues import HOLD, HOST
from inferbench_tasks.provider.submit.ending import end_run
from inferbench_tasks.provider.submit.quota import device_minutes, out_of_device_time
from inferbench_tasks.provider.submit.shelf import PREFIX, Shelf
from inferbench_tasks.provider.weights import weight
from inferbench_tasks.scheduling.eventlog import EventLog
from inferbench_tasks.scheduling.policies import DEFAULT_POLICY, POLICIES

POLICY = "INFERBENCH_POLICY"
#: What the loop does, and how often, s.
EVERY_S = {
    "tick": 0.2, "look": 0.5, "publish": 1.0, "watch": 1.0, "disk": 5.0, "shelf": 5.0, "search": 10.0, "quota": 10.0,
    "ended": 10.0, "clean": 600.0,
}  # fmt: skip
#: What waits is told again after so many times as long as telling it took, and, however many wait, within so long: what
#: a scheduler has told is forgotten after 15 s (``TTL_S``).
PUBLISH_SHARE, LEAST_OFTEN_S = 10.0, 5.0
#: The scheduler's own loop stands still while PerfDB is asked: better to skip a turn than to miss its heartbeat.
PATIENCE_S = 3.0
#: So many DAG runs' logins are remembered.
LOGINS = 4096


def _asked(dag_id: str, dag_run_id: str) -> tuple[dict[str, Any], float, str | None]:
    """Of a run: what its trigger changed, when it was asked for (Unix time), by whom."""
    return *dag_runs.trigger(dag_id, dag_run_id), dag_runs.login(dag_id, dag_run_id)


class DeviceCeleryExecutor(CeleryExecutor):
    """Airflow's CeleryExecutor with a device policy in front of it."""

    def start(self) -> None:
        """Find PerfDB, learn the estimates, open the event log."""
        super().start()
        data_dir = settings.data_dir()
        settings.disk_full(data_dir)  # settings that are wrong are told now
        device_minutes()
        self._db = PerfDB.connect(settings.perfdb_uri(), data_dir)
        Hosts(self._db).lead(own(), settings.home_id(data_dir))
        self._cluster = Cluster(self._db, PATIENCE_S)
        self._estimator = learnt(self._db)
        policy = POLICIES.load(os.environ.get(POLICY, DEFAULT_POLICY), POLICY)()
        self._name = f"{os.uname().nodename}-{os.getpid()}-{int(time.time())}"
        path = data_dir / "scheduling" / f"{self._name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        log = EventLog(open(path, "w", encoding="utf-8"), policy.name, policy.params)  # noqa: SIM115 - as long as we live
        self._dispatcher = Dispatcher(self._cluster, policy, log)
        self._waiting: dict[str, Any] = {}
        """Job -> key of its task that is held: the one that opens its lease."""
        self._job_of_held: dict[Any, str] = {}
        """Key of a task that is held -> its job; of some that are held no more, too."""
        self._askers: dict[str, Asker] = {}
        self._came: list[tuple[str, LeaseRequest, ExecuteTask]] = []
        """Jobs that were seen for the first time in this round, with the task that opens their lease."""
        self._moved: list[tuple[Any, str]] = []
        """(task, queue) to write down."""
        self._to_come: Counter[str] = Counter()
        """Login -> jobs that are in parts which have not begun."""
        self._actions: list[Action] = []
        self._host_slots = HostSlots()
        self._tenant_of = lru_cache(LOGINS)(lambda run: dag_runs.login(*run) or "")
        """Of host tasks: the login that started a DAG run; those that schedules started are one tenant."""
        self._cleaning = Cleaning(data_dir)
        self._ended_runs = EndedRuns(self._db)
        self._watch = FolderWatch(dag_files())
        self._key = signing_key()
        self._sent = Sent()
        self._turns = Turns(EVERY_S)
        self._leased = LeasedJobs(self._dispatcher, self._db, self._estimator)
        self.log.info("devices are leased by policy=%s events=%s", policy.name, path)

    @property
    def slots_available(self) -> int:
        """What is held takes no slot: the next jobs have to be seen to be ordered."""
        return int(super().slots_available) + len(self._waiting)

    def _get_workloads_to_schedule(self, open_slots: int) -> list[tuple[Any, Any]]:
        """All that may start now: the first host tasks, and device tasks of jobs that have their device."""
        workloads: list[tuple[Any, Any]] = list(self.queued_callbacks.items())
        host: dict[Any, tuple[ExecuteTask, bool]] = {}
        for key, workload in self.order_queued_tasks_by_priority():
            if len(workloads) >= open_slots:
                break
            task = LeasedTask.of(workload.ti.executor_config)
            queue = None if task is None else self._queue_of(task, workload)
            if queue == HOLD:
                continue
            if (queue or workload.ti.queue) == HOST:
                host[key] = workload, queue is not None
                continue
            if queue is not None:
                self._send_to(queue, workload)
            workloads.append((key, workload))
        self._enter()
        workloads += self._host_turns(host, open_slots - len(workloads))
        if self._moved:
            task_queues.set_queues(self._moved)
            self._moved = []
        return workloads

    def order_queued_tasks_by_priority(self) -> list[tuple[TaskInstanceKey, ExecuteTask]]:
        """Without those that are held and stay so: there may be very many of them."""
        others = [item for item in self.queued_tasks.items() if not self._still_held(item[0])]
        return sorted(others, key=lambda item: item[1].ti.priority_weight, reverse=True)

    def _still_held(self, key: Any) -> bool:
        """Whether the task was held before, and its job has no device yet: nothing else of it has to be looked at."""
        job = self._job_of_held.get(key)
        if job is None or self._waiting.get(job) != key:
            return False
        return self._dispatcher.device_of(job) is None

    def _host_turns(self, host: dict[Any, tuple[ExecuteTask, bool]], most: int) -> list[tuple[Any, Any]]:
        """Those host tasks whose turn it is; the flag says that one comes from a device's queue."""
        self._host_slots.ended(self.running)
        tasks = [
            HostTask(key, (workload.ti.dag_id, workload.ti.run_id), workload.ti.priority_weight)
            for key, (workload, _) in host.items()
        ]
        turns = []
        for key in self._host_slots.take(tasks, self._tenant_of, most):
            workload, moved = host[key]
            if moved:
                self._send_to(HOST, workload)
            turns.append((key, workload))
        return turns

    def _send_to(self, queue: str, workload: ExecuteTask) -> None:
        workload.ti.queue = queue
        self._moved.append((workload.ti.id, queue))

    def _queue_of(self, task: LeasedTask, workload: ExecuteTask) -> str:
        job = str(job_of_task(workload.ti, task))
        device = self._dispatcher.device_of(job)
        if task.elsewhere:
            device = self._dispatcher.device_elsewhere(job, int(task.elsewhere))
        if task.request is not None:
            if device is not None:
                self._waiting.pop(job, None)
                self._dispatcher.started(job)
                return device
            if job not in self._waiting:
                self._came.append((job, task.request, workload))
            return HOLD
        if device is not None and self._dispatcher.devices[device].age_s < NO_SHOW_S:
            return device
        if not self._dispatcher.knows_leases():
            return HOLD  # a new scheduler, or one without PerfDB, does not know which device its job holds
        # Its device is gone: its clean-up can be done from here, anything else says so and fails.
        return HOST

    def _enter(self) -> None:
        """The jobs that came wait from now on; what is the same for many of them is asked for once."""
        came, self._came = self._came, []
        if not came:
            return
        asked, weights = cache(_asked), []
        try:
            view = ClusterView(self._cluster, [job for job, *_ in came])
        except InferBenchError as error:
            self.log.warning("%d job(s) can't be looked at now: %s", len(came), error)
            return
        for job, request, workload in came:
            key = JobKey.parse(job)
            try:
                conf, submit_s, login = asked(key.dag_id, key.dag_run_id)
                if request.chosen_by:
                    request = request.on(dag_runs.left_by(key.dag_id, key.dag_run_id, request.chosen_by))
                if request.asked_by:
                    request = request.asking(dag_runs.left_by(key.dag_id, key.dag_run_id, request.asked_by))
                run_id = perfdb_run(key)
                fetching = partial(fetch_s, self._db, run_id)
                spec = queued_job(key, request, conf, submit_s, self._estimator, view, login, fetching)
                self._dispatcher.submit(spec, run_id)
            except InferBenchError as error:
                self.log.warning("a job can't be looked at now job=%s error=%s", job, error)
                continue
            self._waiting[job] = workload.ti.key
            self._job_of_held[workload.ti.key] = job
            self._askers[job] = Asker(str(conf.get("user") or request.job.get("user", spec.tenant)), login)
            weights.append((workload.ti.id, weight(spec.priority, spec.est_s)))
        task_queues.set_weights(weights)

    def _process_workloads(self, workload_items: Sequence[Any]) -> None:
        """Send them; a token may have grown old while its task was held."""
        for workload in workload_items:
            if isinstance(workload, ExecuteTask):
                workload.token = type(workload).generate_token(str(workload.ti.id), self.jwt_generator)
        super()._process_workloads(workload_items)
        self._sent.add(w.ti.key for w in workload_items if isinstance(w, ExecuteTask))

    def _send_workloads_to_celery(self, workload_tuples_to_send: Sequence[Any]) -> Any:
        """Signed, where others write into the broker too."""
        send_all = super()._send_workloads_to_celery
        if self._key is None:
            return send_all(workload_tuples_to_send)
        return send(self._key, workload_tuples_to_send, send_all)

    def sync(self) -> None:
        """Celery's states, then the devices, the jobs on them, and what waits."""
        super().sync()
        if self._turns.due("watch") and self._watch.look(now := time.time()):
            files_read.read_again(self._watch.to_ask_for(files_read.last_read(), now), self._watch.dag_files)
        if self._turns.due("search"):
            self._send_again()
        if self._turns.due("clean"):
            self._cleaning.start_if_due(measuring=bool(self._dispatcher.held))
        try:
            if self._turns.due("look"):
                self._leased.look(self._waiting)
            if self._turns.due("disk"):
                self._see_disk()
            if self._turns.due("shelf"):
                Shelf(settings.data_dir()).keep(dag_runs.unfinished(PREFIX))
                PartShelf(settings.data_dir()).keep(dag_runs.unfinished(within=MARK))
            if self._turns.due("ended"):
                for dag_id, run_id in dag_runs.left_behind():
                    self.log.warning("%s of %s is ended: its submission was", run_id, dag_id)
                    end_run(dag_id, run_id)
                self._ended_runs.end(self._dispatcher.held)
            if self._turns.due("quota"):
                self._to_come = dag_runs.jobs_to_come()
                self._dispatcher.withhold(out_of_device_time(self._waiting_logins(), self._db))
            if self._turns.due("tick"):
                self._actions += self._dispatcher.tick()
                while self._actions:
                    # What could not be done stays: the dispatcher has forgotten the job.
                    self._act(self._actions[0])
                    del self._actions[0]
            if self._turns.due("publish"):
                began = time.monotonic()
                self._look_at_waiting()
                held_back, aside = self._dispatcher.held_back, self._dispatcher.aside
                index, devices = self._dispatcher.index, self._dispatcher.devices_for_others
                rows, total = waiting_jobs(
                    index, devices, time.time(), held_back, askers=self._askers, aside=aside
                )
                by_login = waiting_by_login(index, aside) + self._to_come
                self._cluster.publish_waiting(self._name, rows, total, by_login)
                # Of very many jobs less often: what people are shown must not take the loop's time.
                took_s = time.monotonic() - began
                self._turns.put_off("publish", min(PUBLISH_SHARE * took_s, LEAST_OFTEN_S))
        except InferBenchError as error:
            # Nothing is granted while PerfDB is away; what runs goes on.
            self.log.warning("PerfDB is away: %s", error)

    def _waiting_logins(self) -> set[str]:
        """Who has jobs that wait; and the askers of jobs that are over are forgotten."""
        self._askers = {job: asker for job, asker in self._askers.items() if job in self._waiting}
        self._job_of_held = {key: job for job, key in self._waiting.items()}
        return {asker.login for asker in self._askers.values() if asker.login}

    def _see_disk(self) -> None:
        """No job gets a device while the disk is full; those that have one go on, and store what they measured."""
        reason = settings.disk_full(settings.data_dir())
        if reason and not self._dispatcher.held_back:
            self.log.error("no job starts: %s", reason)
        self._dispatcher.held_back = reason

    def _send_again(self) -> None:
        """What a broker or worker lost on the way has its task scheduled once more."""
        overdue = self._sent.overdue(self.workloads)
        queues = task_queues.queued(overdue) if overdue else {}
        if not queues:
            return
        ids = {key: str(self.workloads[key].task_id) for key in queues}
        missing = Messages(self.celery_app).missing({ids[key]: queue for key, queue in queues.items()})
        for key in self._sent.lost(queues, {key for key in queues if ids[key] in missing}):
            self.log.warning("the message of %s was lost on its way to %s: sent again", key, queues[key])
            self.celery_app.control.revoke(ids[key])
            self.workloads.pop(key, None)
            self.running.discard(key)
            task_queues.schedule_again(key)

    def _act(self, action: Action) -> None:
        if action.kind == "start":
            return  # its task is sent with the next heartbeat
        job = JobKey.parse(action.job)
        tasks = job_tasks.job_tasks(job)
        self.log.warning("job=%s device=%s %s: %s", action.job, action.device_id, action.kind, action.reason)
        if action.kind == "lost":
            # First, for it may fail and is then tried again: what follows is done once.
            self._leased.end_run(job, tasks, Verdict.failed("scheduler", f"{action.reason}; it is run again"))
            if (key := self._waiting.pop(action.job, None)) is not None:
                self.queued_tasks.pop(key, None)
            self._drop_celery_tasks(job, tasks)
            job_tasks.fail_tasks(job, tasks.ids)
            records.end_run(settings.servers_dir(settings.data_dir()), perfdb_run(job))
            job_tasks.run_again(job, tasks)
        elif action.kind == "stop":
            job_tasks.fail_tasks(job, tasks.work_ids)
        elif (key := self._waiting.pop(action.job, None)) is not None:
            self.queued_tasks.pop(key, None)
            self.fail(key, action.reason)
        if action.kind in ("stop", "give_up"):
            self._leased.end_run(job, tasks, Verdict.failed("scheduler", action.reason))

    def _look_at_waiting(self) -> None:
        """Forget what its user ended meanwhile."""
        ids = {
            self.queued_tasks[key].ti.id: job
            for job, key in self._waiting.items()
            if key in self.queued_tasks
        }
        gone = set(self._waiting) - set(ids.values())
        gone |= {ids[ti_id] for ti_id in task_queues.not_queued(list(ids))}
        for job in gone:
            self.queued_tasks.pop(self._waiting.pop(job), None)
            self._dispatcher.withdraw(job, "ended while it waited")

    def _drop_celery_tasks(self, job: JobKey, tasks: job_tasks.JobTasks) -> None:
        for key, result in list(self.workloads.items()):
            if isinstance(key, TaskInstanceKey) and (key.dag_id, key.run_id) == (job.dag_id, job.dag_run_id):
                if key.task_id not in tasks.ids:
                    continue
                self.celery_app.control.revoke(result.task_id)
                self.workloads.pop(key, None)
                self.running.discard(key)

    def revoke_task(self, *, ti: Any) -> None:
        """Airflow takes a task back; a held one was never sent."""
        super().revoke_task(ti=ti)
        if (task := LeasedTask.of(ti.executor_config)) is None:
            return
        job = str(job_of_task(ti, task))
        if self._waiting.pop(job, None) is not None:
            self._dispatcher.withdraw(job, "taken back")

    def try_adopt_task_instances(self, tis: Sequence[Any]) -> Sequence[Any]:
        """What a dead scheduler had sent is adopted; what it only held is queued anew, in its old place."""
        waiting = [ti for ti in tis if ti.queue == HOLD]
        on_queues = [ti for ti in tis if ti.queue != HOLD]
        orphans = list(super().try_adopt_task_instances(on_queues)) if on_queues else []
        self._sent.add(ti.key for ti in on_queues if ti.key in self.workloads)
        return [*waiting, *orphans]

    def end(self, synchronous: bool = False) -> None:
        """The scheduler stops; what runs goes on and is adopted by the next."""
        super().end(synchronous)
