"""Results of every kind of training, with the columns that its ranks would write and steps of known times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.monitors.records import Recording, Series
from inferbench_tasks.perfdb.documents import DeviceInfo, Provenance, SubmissionInfo
from inferbench_tasks.training import certificate, denormal, disturbance, memory_figures, probes, steps
from inferbench_tasks.training.diagnosis.observation import Steps
from inferbench_tasks.training.diagnosis.raw import ranks_in
from inferbench_tasks.training.diagnosis.runs.wrong_column import HOLDS
from inferbench_tasks.training.exchange import Exchange
from inferbench_tasks.training.job import EpochKind, TrainingJob
from inferbench_tasks.training.order import Answer, Epoch, MemoryGrown
from inferbench_tasks.training.phases import MEASURED, part_of, phases_of
from inferbench_tasks.training.rank import Rank
from inferbench_tasks.training.report.views import TrainingView
from inferbench_tasks.training.result import EngineInfo, NetworkInfo, TrainingResult, TrainingSummary
from inferbench_tasks.training.stages.collect import summarise
from inferbench_tasks.training.stored_job import fields_of, stored

MS = 1_000_000
BATCH, WHOLE_STEPS = 8, 31
CORES = 64
#: Of each phase, ms; what of it the thread is blocked, by phase, where there is somebody to wait for.
PHASES_MS = {
    "loading": 0.2, "to_device": 0.05, "processing": 0.5, "forward": 4.0, "loss": 0.3, "backward": 6.0, "gather": 0.3,
    "optimiser": 0.8,
}  # fmt: skip
BLOCKED_MS = {"backward": 0.3, "gather": 0.1}
CLOCKS_MS, BETWEEN_MS = 0.05, 0.02
MADE_MS = {"read": 0.02, "decode": 0.0, "transform": 0.05, "collate": 0.05}
HANDED_MS = {"queued": 0.1, "queue_wait": 0.05, "serialise": 0.03, "deserialise": 0.02}
#: What results of before had not.
NEWER = ("_own_cpu_ns", "_own_wait_ns", "clocks_ns", "statistics", "made_", "queue_wait", "serialise_ns")
NETWORKS: Mapping[str, dict[str, Any]] = {
    "fashion-cnn": {"model": {"name": "fashion-cnn"}},
    "resnet-18": {"model": {"name": "resnet-18"}, "data": {"image_size": 32}},
    "lstm": {"model": {"name": "lstm"}},
    "bert-base": {"model": {"name": "bert-base"}},
    "file": {"model": {"name": "mine", "kind": "file", "module": "net.py"}},
}
WITH_STATISTICS = ("resnet-18", "file")


@dataclass(frozen=True)
class Combination:
    """``place``: of the data. ``waits``: whether the kernel tells waits for a core; ``older``: stored before newer
    columns were there. ``samples``: of the data, by default what makes as many steps of each.
    """

    benchmark: str
    ranks: str
    network: str
    place: str
    workers: int
    timing: tuple[str, ...] = ("synchronised",)
    waits: bool = True
    older: bool = False
    samples: int | None = None

    def __str__(self) -> str:
        told = ("" if self.waits else "-no_waits") + ("-older" if self.older else "")
        parts = (self.benchmark, self.ranks, self.network, self.place, f"{self.workers}w", self.timing[-1])
        return "-".join(parts) + told

    @property
    def job(self) -> TrainingJob:
        """As a submission has it: epochs of 3 steps of warm-up, 28 whole ones, and a smaller one."""
        count, strategy = {"one": (1, "single"), "alone": (1, "ddp"), "two": (2, "ddp"), "hosts": (2, "ddp")}[
            self.ranks
        ]
        devices: dict[str, Any] = {"processes": count, "strategy": strategy}
        if self.ranks == "hosts":
            devices = {"count": 2, "hosts": 2, "strategy": strategy}
        smooth = self.benchmark == "smooth_inference"
        data: dict[str, Any] = {"kind": "dummy", "where": self.place}
        data["samples"] = self.samples or (WHOLE_STEPS if smooth else count * (WHOLE_STEPS * BATCH + 3))
        fields = NETWORKS[self.network]
        return TrainingJob.model_validate(
            {
                "kind": "training",
                "name": "x",
                "model": fields["model"],
                "data": {**data, **fields.get("data", {})},
                "loader": {"workers": self.workers},
                "train": {"benchmark": self.benchmark, "batch_size": BATCH},
                "devices": devices,
                "timing": self.timing,
            }
        )


@dataclass(frozen=True)
class Fault:
    """What is wrong with a run. ``phases_ms``, ``blocked_ms``, ``made_ms``: instead of the usual ones; ``slow``: by how
    much longer the last rank computes in forward; ``first``: and the first round's steps are; ``growth``: a batch of 64
    by one of 8.
    """

    phases_ms: Mapping[str, float] = field(default_factory=dict)
    blocked_ms: Mapping[str, float] = field(default_factory=dict)
    made_ms: Mapping[str, float] = field(default_factory=dict)
    slow: float = 1.0
    first: float = 1.0
    growth: float = 8.0


CLEAN = Fault()


def columns(of: Combination, job: TrainingJob, kind: EpochKind) -> list[str]:
    """Those that a rank itself says it writes in such an epoch."""
    exchanges = job.train.benchmark == "train" and job.devices.strategy == "ddp"
    exchange = SimpleNamespace(columns=Exchange.columns, statistics=Exchange.statistics, read=None)
    rank: Any = SimpleNamespace(
        job=job,
        exchange=exchange if exchanges else None,
        synchronise=lambda: None,
        barrier=lambda: None,
        device=SimpleNamespace(type="cpu"),
    )
    waits: Any = SimpleNamespace()
    return list(Rank.instrument(rank, kind, waits).columns)


class Made:
    """A run of a combination: what its ranks answered, their raw steps, and the result that is stored of them."""

    def __init__(
        self, of: Combination, fault: Fault = CLEAN, run: str = "x-1.a", longer: float = 1.0
    ) -> None:
        self.of, self.fault, self.job, self._longer = of, fault, of.job, longer
        self.phases = phases_of(self.job.train.benchmark, self.job.devices.strategy)
        self.answers = [self._answer(rank) for rank in range(self.job.devices.ranks)]
        self.table = steps.table(self.answers)
        if of.older:
            kept = [name for name in self.table.column_names if not any(new in name for new in NEWER)]
            self.table = self.table.select(kept)
        self.ranks: list[Steps] = ranks_in(self.table)
        self.result = self._result(run)
        self.view = TrainingView(run, fields_of(self.result), self.result, run)

    def _answer(self, rank: int) -> Answer:
        epochs: list[Epoch] = []
        for round_ in range(self.job.train.rounds):
            for kind in self.job.epoch_kinds:
                epochs.append(self._epoch(rank, round_, kind, start_ns=len(epochs) * 2_000 * MS))
        return Answer(
            rank=rank, world=self.job.devices.ranks, pid=1, epochs=epochs, parameters=[1.0, 2.0], parameter_count=5,
            device="cpu", probes=self._probes(), versions={"torch": "2"},
        )  # fmt: skip

    def _epoch(self, rank: int, round_: int, kind: EpochKind, start_ns: int) -> Epoch:
        job, names = self.job, columns(self.of, self.job, kind)
        rng = np.random.default_rng((rank, round_, job.epoch_kinds.index(kind)))
        trains = job.train.benchmark == "train"
        epoch = Epoch(kind=kind, round=round_, started_ns=start_ns, ready_ns=start_ns + MS, columns=names)
        at_ns = epoch.ready_ns
        for step in range(job.steps):
            samples = min(job.samples_per_step, job.samples_per_process - step * job.samples_per_step)
            part = part_of(step, samples, job.train.warmup_steps, job.samples_per_step)
            noise = rng.normal(1.0, 0.01, len(self.phases)) * self._longer
            noise *= self.fault.first if round_ == 0 else 1.0
            walls = {
                phase: int(self._ms(phase, rank) * MS * factor)
                for phase, factor in zip(self.phases, noise, strict=True)
            }
            whole_ns = sum(walls.values()) + int((CLOCKS_MS + BETWEEN_MS) * MS)
            if part == MEASURED:
                epoch.window_start_ns = epoch.window_start_ns or at_ns
                epoch.window_end_ns = at_ns + whole_ns
                epoch.window_samples += samples
            if names:
                head: dict[str, int | None]
                head = {
                    "step": step,
                    "part": part,
                    "samples": samples,
                    "step_start_ns": at_ns,
                    "step_ns": whole_ns,
                }
                values = head | self._times(walls, at_ns)
                epoch.rows.append([values[name] for name in names])
            epoch.losses += [1.0] if trains else []
            at_ns += whole_ns
        epoch.ended_ns = at_ns
        epoch.repeated = 0 if job.loads else None
        window_s = ((epoch.window_end_ns or 0) - (epoch.window_start_ns or 0)) / 1e9
        epoch.cpu_s, epoch.memory = 0.9 * window_s, MemoryGrown(major_faults=0, swapped_in_bytes=0)
        if self.of.waits:
            epoch.wait_s = epoch.longest_wait_s = 0.0
            if job.loads and self.of.workers:  # of no process nothing is read
                epoch.loader_cpu_s, epoch.loader_wait_s = 0.1 * window_s, 0.0
        return epoch

    def _ms(self, phase: str, rank: int) -> float:
        ms = {**PHASES_MS, **self.fault.phases_ms}[phase]
        slow = phase == "forward" and rank == self.job.devices.ranks - 1
        return ms * self.fault.slow if slow else ms

    def _times(self, walls: Mapping[str, int], at_ns: int) -> dict[str, int | None]:
        """All columns that any timing has."""
        job, several = self.job, self.job.devices.ranks > 1
        values: dict[str, int | None] = {"clocks_ns": int(CLOCKS_MS * MS)}
        for phase, wall_ns in walls.items():
            blocked_ms = {**BLOCKED_MS, **self.fault.blocked_ms}.get(phase, 0.0) if several else 0.0
            own_ns = max(0, wall_ns - int(blocked_ms * MS))
            wait_ns = 0 if self.of.waits else None
            times = (at_ns, wall_ns, own_ns, wait_ns, own_ns, wait_ns)
            names = ("start", "wall", "cpu", "wait", "own_cpu", "own_wait")
            values |= {f"{phase}_{name}_ns": time for name, time in zip(names, times, strict=True)}
            values |= {f"{phase}_device_ns": wall_ns, f"{phase}_host_ns": wall_ns}
            at_ns += wall_ns
        for column, held in HOLDS[job.train.benchmark].items():
            values[f"{column}_ns"] = sum(walls.get(phase, 0) for phase in held)
        # The reducer of one rank has none; statistics are 0 of a network without, and unknown without their waits.
        values |= dict(zip(Exchange.columns, (2 * MS, MS // 4) if several else (None, None), strict=True))
        shared = several and self.of.network in WITH_STATISTICS
        of_statistics = (int(0.2 * MS), int(0.1 * MS), 0 if self.of.waits else None) if shared else (0, 0, 0)
        values |= dict(zip(Exchange.statistics, of_statistics, strict=True))
        made = {**MADE_MS, **self.fault.made_ms}
        handed = HANDED_MS if self.of.workers else {**dict.fromkeys(HANDED_MS), "queued": 0.01}
        values |= {f"{part}_ns": None if ms is None else int(ms * MS) for part, ms in (made | handed).items()}
        values["made_cpu_ns"] = int(sum(made.values()) * MS) if self.of.workers else None
        values["made_wait_ns"] = 0 if self.of.workers and self.of.waits else None
        return values

    def _probes(self) -> dict[str, float | None]:
        job = self.job
        found: dict[str, float | None] = dict.fromkeys(
            (*probes._OF_STEPS, *denormal.FIGURES, *probes._OTHERS)
        )
        if job.smooth:
            return found
        alone_ms = sum(PHASES_MS[phase] for phase in ("forward", "loss", "backward") if phase in self.phases)
        found |= {"alone_ms": alone_ms, "larger_ms": self.fault.growth * alone_ms, "larger_batch": 64}
        making_ms = sum({**MADE_MS, **self.fault.made_ms}.values())
        if job.loads and not self.of.workers:
            found |= {"beside_ms": alone_ms, "hand_over_ms": 0.1}
        elif job.loads:
            found |= {"own_making_ms": making_ms}
        return found

    @property
    def ledger(self) -> dict[str, Any]:
        """What monitors saw: nobody but the ranks."""
        return disturbance.ledger(self.recording, self.answers, self.job, {"cores_logical": CORES})

    @property
    def recording(self) -> Recording:
        """One core in use for each rank, and InferBench's own processes idle."""
        t_ns = np.arange(0, 60_000 * MS, 100 * MS)
        busy = t_ns / 1e9 * len(self.answers)
        zero = np.zeros(len(t_ns))
        series = {
            ("host", "cpu_busy_s_total"): busy, ("host", "cpu_steal_s_total"): zero, ("client", "cpu_s_total"): zero,
        }  # fmt: skip
        return Recording({name: Series(t_ns, values) for name, values in series.items()}, {})

    def _result(self, run: str) -> TrainingResult:
        job = self.job
        summary = summarise(self.answers, job)
        summary["memory"] = memory_figures.of_epochs(self.answers, self.recording)
        proof = certificate.certify(self.answers, summary, self.ledger, "warm", job.data.count)
        if self.of.older:
            _aged(summary)
        return TrainingResult(
            run_id=run,
            attempt=1,
            job_id="x",
            submission=SubmissionInfo(name="x", digest="d"),
            # What is told of a valid run is looked at, be it that nobody watched this one.
            verdict=Verdict(kind="valid"),
            benchmark=job.train.benchmark,
            model=NetworkInfo(name=job.model.label, parameters=5),
            data=job.data.model_dump(mode="json"),
            loader=job.loader.model_dump(mode="json"),
            device=DeviceInfo(kind="cpu", name="cpu", cores=CORES),
            engine=EngineInfo(
                kind="torchrun", backend=job.devices.exchange, strategy=job.devices.strategy,
                processes=job.devices.ranks, threads=1, version="2",
            ),
            summary=TrainingSummary(**summary),
            certificate=proof,
            provenance=Provenance(**{"job": stored(job)}),
            extensions=_two_hosts() if self.of.ranks == "hosts" else {},
        )  # fmt: skip


def _aged(summary: dict[str, Any]) -> None:
    """As it was stored before newer figures were there."""
    summary["memory"] = None
    del summary["synchronised"]["clocks_ms"]
    for phase in summary["synchronised"]["phases"].values():
        del phase["own_cpu_ms"], phase["own_wait_ms"]
    if parts := summary["loader"]["parts"]:
        for name in ("queue_wait", "serialise", "deserialise", "transfer", "made_cpu", "made_wait"):
            del parts[f"{name}_ms"]


def _two_hosts() -> dict[str, Any]:
    host = {"cores": 2, "hardware": {}, "system": {}, "versions": {}}
    return {
        "hosts": [{"host": name, "ranks": [rank], **host} for rank, name in enumerate(("a", "b"))],
        "link": {"before": {"up_mbit_s": 900.0}},
        "hosts_clock": {"ahead_ns": 10, "error_ns": 5},
    }
