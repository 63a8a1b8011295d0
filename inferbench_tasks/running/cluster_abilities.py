"""What this installation and its cluster can do: also whether there are as many devices and cores as a job needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from inferbench_tasks.abilities import InstalledAbilities
from inferbench_tasks.cluster.abilities import no_host, unable
from inferbench_tasks.cluster.apart import too_few_hosts
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.host import Host
from inferbench_tasks.cluster.hosts import Hosts
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.cluster.waiting import too_few
from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.cores import usable_cores
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.ask import Ask, AskHere, AskNobody, AskThis
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.base import pipeline_of
from inferbench_tasks.running.known_systems import absent, of_devices, of_this_machine
from inferbench_tasks.submission.base import JobBase
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import JobSpec, Submission
from inferbench_tasks.submission.sweep import Job
from inferbench_tasks.submission.systems import System
from inferbench_tasks.workers.devices import gpu_count


@dataclass(frozen=True)
class StoredAbilities(InstalledAbilities):
    """Those of this installation; ``ask``: the PerfDB that knows more of the models of jobs."""

    ask: Ask = field(default=AskNobody(), kw_only=True)

    def file_findings(self, spec: JobBase, base_dir: Path) -> Sequence[Finding]:
        """Also what PerfDB says, of jobs whose files say nothing against them."""
        of_files = super().file_findings(spec, base_dir)
        return of_files or pipeline_of(spec).stored_findings(spec, base_dir, self.ask)


@dataclass(frozen=True)
class ClusterAbilities(StoredAbilities):
    """``devices``: those that have a worker, asked for when a job needs several; none: the cluster is not known."""

    devices: Callable[[], Sequence[Device]]
    hosts: Callable[[], Sequence[Host]] = field(default=tuple, kw_only=True)
    """Those that the devices are of, asked for when a submission chooses among systems."""

    def systems(self) -> Sequence[System] | None:
        """The registered devices; where there is none its form is checked, if that is enough."""
        return None if self.form_alone and not self.devices() else self._known()

    def _known(self) -> Sequence[System]:
        return of_devices(self.devices(), self.hosts())

    def findings(self, spec: JobBase) -> Sequence[Finding]:
        """Also that no host has so many devices, or none that has can do what the job asks for; a job of one device
        waits for one.
        """
        findings = [*super().findings(spec), *self._cores(spec), *absent(spec, self._known)]
        count = spec.needed_devices()
        if count > 1 and (devices := self.devices()):
            wanted = spec.needed_device()
            types = wanted.detail or wanted.kind
            suited = [
                d for d in devices if d.device_type == types or (types == "gpu" and d.gpu_index is not None)
            ]
            ability, chosen = spec.needed_ability(), spec.only_on()
            allowed = [device for device in suited if not chosen or device.device_id in chosen]
            if message := too_few(suited, count, types) or no_host(ability, allowed, count, types):
                findings.append(Finding((spec.devices_field,), message))
        if spec.stages_elsewhere() and (devices := self.devices()):
            own, other = (
                _types(device, devices) for device in (spec.needed_device(), spec.needed_elsewhere())
            )
            if message := _too_few_apart(spec, devices, own, other):
                findings.append(Finding((spec.elsewhere_by(),), message))
        return findings

    def _cores(self, spec: JobBase) -> Iterator[Finding]:
        """Where every device of its kind has fewer cores than it needs."""
        needed, field = spec.needed_cores()
        if needed <= 1 or not (devices := self.devices()):
            return
        kind = spec.needed_device().kind
        most = max((len(d.cores) for d in devices if d.cores and d.device_type == kind), default=needed)
        if most < needed:
            yield Finding((field,), f"needs {needed} cores; the largest {kind} device has {most}")


@dataclass(frozen=True)
class MachineAbilities(StoredAbilities):
    """Those of this process' machine, where a submission is run at once: all its devices share the cores there."""

    here: Callable[[], Sequence[System]] = field(default=of_this_machine, kw_only=True)
    """Its devices, asked for when a submission chooses among systems."""

    def systems(self) -> Sequence[System] | None:
        """This machine's devices."""
        return self.here()

    def findings(self, spec: JobBase) -> Sequence[Finding]:
        """Also that there are fewer devices, or cores, than it can't do without."""
        return [
            *super().findings(spec), *shortages_here(spec), *other_hosts(spec, "run"), *absent(spec, self.here)
        ]  # fmt: skip


def _too_few_apart(
    spec: JobBase, devices: Sequence[Device], own: frozenset[str], other: frozenset[str]
) -> str | None:
    """That there are not so many hosts, or that none of them can do what the job asks of its own."""
    chosen, ability = spec.only_on(), spec.needed_ability()
    among = [device for device in devices if not chosen or device.device_id in chosen]
    # Else which devices were chosen binds its own alone.
    everywhere = among if spec.chosen_elsewhere() else devices
    if message := no_host(ability, [d for d in among if d.device_type in own], 1, " or ".join(sorted(own))):
        return message
    others = {d.device_id for d in everywhere if d not in among} | unable(ability, everywhere)
    message = too_few_hosts(
        own, other, everywhere, frozenset(others), spec.named_elsewhere(), spec.n_elsewhere()
    )
    if message and chosen and spec.chosen_elsewhere():
        return f"of on_devices ({', '.join(chosen)}) {message}"
    return message


def _types(device: DeviceSpec, devices: Iterable[Device]) -> frozenset[str]:
    """The types of registered devices that are such; of a GPU of any type all that there are."""
    if device.kind == "gpu" and not device.detail:
        return frozenset({d.device_type for d in devices if d.gpu_index is not None} or {"gpu"})
    return frozenset({device.detail or device.kind})


def shortages_here(spec: JobBase) -> Iterator[Finding]:
    """What this machine has too little of, or lacks.

    A device has one core at least, as those that workers register. GPUs that NVML does not find may still be there: of
    them the stage says so.
    """
    kind, count = spec.needed_device().kind, spec.needed_devices()
    cores = usable_cores()
    gpus = gpu_count() if kind == "gpu" and count > 1 else 0
    if kind == "cpu" and count > cores:
        message = f"needs {count} devices with a core each; {cores} core(s) may be used here"
        yield Finding((spec.devices_field,), message)
    elif 0 < gpus < count:
        yield Finding((spec.devices_field,), f"needs {count} GPUs; there are {gpus} here")
    of_device, field = spec.needed_cores()
    if of_device * count > cores:
        yield Finding((field,), f"needs {of_device * count} cores; {cores} may be used here")
    yield from _no_balancer(spec)


def other_hosts(spec: JobBase, command: str) -> Iterator[Finding]:
    """That a job with stages on other hosts is none for a ``command`` that runs all of it in this process."""
    if stages := spec.stages_elsewhere():
        others = spec.n_elsewhere()
        where, hosts = ("another host", "two") if others == 1 else ("other hosts", str(1 + others))
        message = (
            f"{', '.join(stages)} on {where} needs a system with workers of {hosts} hosts: `inferbench up --listen` "
            f"here, `inferbench worker --join` there, and `inferbench submit` in place of `{command}`"
        )
        yield Finding((spec.elsewhere_by(),), message)


def not_for_run(jobs: Iterable[Job[JobBase]], cluster: ClusterAbilities) -> list[str]:
    """Jobs that need other hosts, which ``inferbench run`` refuses: each reason once, with the first job it is true of;
    [] where devices are registered, for then the problems say whether there are hosts enough.
    """
    messages: dict[str, str] = {}
    for job in jobs:
        for finding in other_hosts(job.spec, "run"):
            messages.setdefault(finding.message, f"{job.job_id}: {finding.fields[0]}: {finding.message}")
    return [] if not messages or cluster.devices() else list(messages.values())


def _no_balancer(spec: JobBase) -> Iterator[Finding]:
    """What stands before a server on several devices, where it is not installed here."""
    if isinstance(spec, JobSpec) and spec.serve.devices > 1 and not spec.serve.apart:
        from inferbench_tasks.backends.nginx_balancer import unavailable

        if reason := unavailable(spec.traffic.protocol):
            yield Finding((spec.devices_field,), reason)


def of_cluster(db: PerfDB) -> ClusterAbilities:
    """Those of the cluster whose devices are in this PerfDB."""
    return ClusterAbilities(cache(lambda: _with_worker(db)), hosts=cache(lambda: _hosts(db)), ask=AskThis(db))


def of_cluster_here(data_dir: Path) -> ClusterAbilities:
    """Those of the cluster that this data directory or ``INFERBENCH_PERFDB_URI`` belongs to; nothing is started.

    Where PerfDB is away, what the cluster has is not known, and the job waits with the reason.
    """
    ask = AskHere(data_dir)
    return ClusterAbilities(cache(lambda: ask(_with_worker)), hosts=cache(lambda: ask(_hosts)), ask=ask)


def of_machine_here(data_dir: Path) -> MachineAbilities:
    """Those of this machine, with what the PerfDB of ``of_cluster_here`` knows of models."""
    return MachineAbilities(here=cache(of_this_machine), ask=AskHere(data_dir))


def on_one_system(submission: Submission, what: str) -> Submission:
    """The same; InputError where it asks for a job on each system that fits: ``what`` compares runs of one."""
    if submission.systems is not None and submission.systems.all:
        raise InputError(f"{what} compares runs of one system; leave all out", field="systems.all")
    return submission


def _with_worker(db: PerfDB) -> Sequence[Device]:
    return tuple(device for device in Cluster(db, patience_s=3.0).devices() if not device.stopped)


def _hosts(db: PerfDB) -> Sequence[Host]:
    return tuple(Hosts(db, patience_s=3.0).all())
