"""The search over a submission's jobs, by runs that are really made; what is in PerfDB is not made again.

Pure but for PerfDB: the caller runs a job (``run``), this module says which and judges what came out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.analysis.energy_ground import got_by
from inferbench_tasks.analysis.recommend.candidates import Bound, per_request_note, value_of
from inferbench_tasks.analysis.recommend.recommender import Recommendation, choose
from inferbench_tasks.analysis.search.searcher import Goal, Search
from inferbench_tasks.contracts.replicas import several
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.dotted import last
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.slo import SloSpec
from inferbench_tasks.submission.sweep import Job

#: Runs a job to its end and returns its result document as plain values, None if it left none.
RunJob = Callable[[Job[JobSpec]], dict[str, Any] | None]
#: A run that something disturbed is made so often in all.
ATTEMPTS = 2


def goal_of(objective: str, slo: SloSpec | None, extra: Iterable[Bound] = ()) -> Goal:
    """The submission's SLO and further bounds as a search's goal. Raises InputError for an unknown figure."""
    figure = FIGURES.ranking(objective)
    bounds: list[Bound] = []
    if slo is not None:
        bounds += [Bound(name, not FIGURES[name].higher, value) for name, value in slo.bounds().items()]
    return Goal(figure.name, figure.higher, tuple(dict.fromkeys((*bounds, *extra))))


def measured_before(
    db: PerfDB, jobs: Sequence[Job[JobSpec]], device_name: str | None, cores: float | None
) -> list[dict[str, Any]]:
    """Valid results of exactly these jobs on as many cores of this device, whatever submission they belonged to.

    None where the device is not known: another one's figures are no measurement of it. Results from before the number
    of cores was told don't count either. Jobs of several devices divide the cores evenly, as a run here does, which
    leaves to the balancer what is left over.
    """
    if device_name is None:
        return []
    digests: dict[int, list[str]] = {}
    for job in jobs:
        digests.setdefault(job.spec.needed_devices(), []).append(job.digest)
    found: list[dict[str, Any]] = []
    for count, alike in digests.items():
        where: dict[str, Any] = {
            "submission.digest": {"$in": alike},
            "verdict": "valid",
            **_place(count, device_name, cores),
        }
        found += [to_plain(document) for document in db.find_raw(where)]
    return found


def _place(count: int, name: str, cores: float | None) -> dict[str, Any]:
    """What a result of so many devices of this machine is stored under (``stages.collect.device_of``)."""
    if count == 1 or cores is None:
        return {"device.name": name if count == 1 else several([1] * count, name), "device.cores": cores}
    each, left = divmod(int(cores), count)
    return {"device.name": several([each] * count, name, left), "device.cores": float(each * count)}


@dataclass
class LiveSearch:
    """``documents``: the valid results, those from before first; ``run_ids``: all runs that this search made."""

    jobs: Sequence[Job[JobSpec]]
    goal: Goal
    run: RunJob
    say: Callable[[str], None]
    seed: int = 1
    documents: list[dict[str, Any]] = field(default_factory=list)
    run_ids: list[str] = field(default_factory=list)
    runs_started: int = 0
    #: Of each figure that is an energy, how the first was got.
    _ways: dict[str, str] = field(default_factory=dict)

    def search(self, budget: int) -> None:
        """Until so many configurations of the space are measured, those from before included, or all are."""
        sizes = (job.spec.traffic.samples_per_request for job in self.jobs)
        if note := per_request_note(self.goal.objective, sizes):
            self.say(note)
        core = Search([job.point for job in self.jobs], self.goal, seed=self.seed, budget=budget)
        place = {job.digest: index for index, job in enumerate(self.jobs)}
        for document in self.documents:
            core.tell(place[document["submission"]["digest"]], self._comparable(document, core.figures()))
        self.say(f"{len(core.trials)} of {len(self.jobs)} configuration(s) measured before; budget {budget}")
        while len(core.trials) < budget and (index := core.ask()) is not None:
            result = self._measure(self.jobs[index], f"{len(core.trials) + 1}/{budget}")
            verdict = Verdict.of(result) if result else None
            if result is None or verdict is None or (verdict.measured and not verdict.valid):
                core.skip(index)  # disturbed: that says nothing of the configuration
                budget -= 1
            else:
                core.tell(index, self._comparable(result, core.figures()) if verdict.valid else {})
            if core.best is not None and core.best.index == index:
                self.say("    the best so far")

    def settle(self, runs: int) -> None:
        """Repeat what is not sure among the top three, at most so many runs."""
        by_digest = {job.digest: job for job in self.jobs}
        while runs > 0:
            digests = [key.partition(" ")[0] for key in self.recommendation().reruns]
            fewest = sorted(digests, key=lambda digest: sum(self._is(d, digest) for d in self.documents))
            if not fewest:
                return
            self._measure(by_digest[fewest[0]], "again, to settle the order")
            runs -= 1

    def recommendation(self) -> Recommendation:
        """The top three of all that is measured."""
        return choose(self.documents, self.goal.objective, self.goal.bounds)

    def _comparable(self, document: dict[str, Any], names: Sequence[str]) -> dict[str, float | None]:
        """Its figures; an energy that was got in another way than the first is not known, for it would look like what
        the settings did.
        """
        figures = _figures(document, names)
        for name in names:
            figure = FIGURES.named(name)
            if not figure.energy_based or figures[name] is None:
                continue
            way = got_by(figure, document.get("summary") or {})
            if (first := self._ways.setdefault(name, way)) != way:
                figures[name] = None
                self.say(f"    {name} is {way}, and not {first}: it is left out")
        return figures

    def _measure(self, job: Job[JobSpec], which: str) -> dict[str, Any] | None:
        document = None
        for attempt in range(ATTEMPTS):
            self.say(
                f"[{which}] {point_text(job.point)}{' (once more: it was disturbed)' if attempt else ''}"
            )
            document = self.run(job)
            self.runs_started += 1
            if document is None:
                return None
            self.run_ids.append(document["run_id"])
            verdict = Verdict.of(document)
            if verdict is not None and verdict.valid:
                self.documents.append(document)
                self.say(f"    {self._text(_figures(document, self.goal.figures()))}")
                return document
            self.say(f"    {verdict}")
            if verdict is None or not verdict.measured:
                return document
        return document

    def _text(self, figures: dict[str, float | None]) -> str:
        parts = [
            f"{name} {'not known' if value is None else f'{value:.4g}'}" for name, value in figures.items()
        ]
        suffix = (
            ""
            if not self.goal.bounds
            else ", keeps the SLO"
            if self.goal.keeps(figures)
            else ", does not keep the SLO"
        )
        return ", ".join(parts) + suffix

    @staticmethod
    def _is(document: dict[str, Any], digest: str) -> bool:
        return bool(document["submission"].get("digest") == digest)


def _figures(document: dict[str, Any], names: Sequence[str]) -> dict[str, float | None]:
    return {name: value_of(document, name) for name in names}


def point_text(point: dict[str, Any]) -> str:
    """A point of a sweep in words, by the last part of each path."""
    return ", ".join(f"{last(path)} {_plain(value)}" for path, value in point.items()) or "as submitted"


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} {_plain(item)}" for key, item in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)
