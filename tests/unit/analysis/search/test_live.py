"""The search with live runs: what is measured is not measured again, what is disturbed is made once more."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.search.live import LiveSearch, goal_of, measured_before, point_text
from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.submission.schema import JobSpec, Submission
from inferbench_tasks.submission.slo import SloSpec
from inferbench_tasks.submission.sweep import Job, expand
from tests.unit.perfdb.builders import result

SUBMISSION = Submission.model_validate(
    {
        "name": "space",
        "model": {"kind": "zoo", "name": "digits"},
        "load": {"arrivals": {"kind": "closed_loop", "concurrency": 1}},
        "slo": {"p99_ms": 20},
        "sweep": {
            "serve.threads": [1, 2],
            "load.batch_size": [1, 2, 4, 8],
            "load.arrivals.concurrency": [1, 2, 4, 8],
        },
    }
)
JOBS = expand(SUBMISSION)
GOAL = goal_of("throughput_samples_per_s", SUBMISSION.slo)


class Machine:
    """Answers a job by a plain model of a server; ``disturbed`` and ``broken`` say how often and for what."""

    def __init__(self, disturbed: int = 0, broken: int | None = None, drift: tuple[float, ...] = ()) -> None:
        self.asked: list[str] = []
        self.disturbed, self.broken = disturbed, broken
        self.drift = list(drift)

    def run(self, job: Job[JobSpec]) -> dict[str, Any]:
        """Run the job: a result document as PerfDB gives it back."""
        self.asked.append(job.digest)
        load, threads = job.spec.traffic, job.spec.serve.threads
        rate = 1000 * load.batch_size * min(1.2, load.arrivals.concurrency) / (1 + load.batch_size / threads)  # type: ignore[attr-defined]
        p99 = load.arrivals.concurrency * load.batch_size / rate * 2000  # type: ignore[attr-defined]
        rate *= self.drift.pop() if self.drift else 1
        verdict = "valid"
        if self.disturbed:
            self.disturbed -= 1
            verdict = "invalid: interference: another process"
        if threads == self.broken:
            verdict = "failed: serve, it died"
        summary = {"e2e_latency_ms": {"p99": p99}, "throughput_samples_per_s": rate, "error_ratio": 0.0}
        return result(
            f"run-{len(self.asked)}",
            submission={"name": "space", "digest": job.digest},
            load={"batch_size": load.batch_size, "arrivals": {}, "network": "lan"},
            summary=summary if verdict == "valid" else {},
            verdict=verdict,
        ).model_dump()


def live(machine: Machine, documents: list[dict[str, Any]] | None = None) -> tuple[LiveSearch, list[str]]:
    """A search on that machine, and what it says."""
    messages: list[str] = []
    return LiveSearch(JOBS, GOAL, machine.run, messages.append, documents=documents or []), messages


def test_it_runs_no_more_than_its_budget_and_finds_a_configuration_that_keeps_the_slo() -> None:
    """10 of 32 jobs, each once; what it recommends is the best of them and keeps the bound."""
    machine = Machine()
    search, messages = live(machine)
    search.search(10)
    assert len(machine.asked) == len(set(machine.asked)) == search.runs_started == 10
    recommendation = search.recommendation()
    assert recommendation.top[0]["p99_ms"] <= 20
    keeping = [d for d in search.documents if d["summary"]["e2e_latency_ms"]["p99"] <= 20]
    assert recommendation.top[0]["throughput_samples_per_s"] == max(
        d["summary"]["throughput_samples_per_s"] for d in keeping
    )
    assert messages[0] == "0 of 32 configuration(s) measured before; budget 10"


def test_what_was_measured_before_counts_and_is_not_run_again() -> None:
    """Stopped after 6 and begun anew with what PerfDB has: 4 more runs, none of them made before."""
    first = Machine()
    search, _ = live(first)
    search.search(6)
    second = Machine()
    again, messages = live(second, search.documents)
    again.search(10)
    assert len(second.asked) == 4
    assert not set(second.asked) & set(first.asked)
    assert messages[0].startswith("6 of 32")


def test_an_energy_by_another_method_teaches_the_search_nothing() -> None:
    """By RAPL a sample takes 2 J with one thread and 1 J with two; each third run, beside which something else ran, has
    0.01 J by the estimate of its server's share. What is recommended is the least by RAPL.
    """
    machine = Machine()
    messages: list[str] = []

    def run(job: Job[JobSpec]) -> dict[str, Any]:
        document = machine.run(job)
        share = len(machine.asked) % 3 == 0
        document["summary"]["energy"] = {
            "joule_per_sample": 0.01 if share else 2.0 / (job.spec.serve.threads or 1),
            "method": "tdp_estimate" if share else "rapl",
        }
        return document

    search = LiveSearch(JOBS, goal_of("joule_per_sample", None), run, messages.append)
    search.search(9)
    said = "    joule_per_sample is energy by tdp_estimate, and not energy by rapl: it is left out"
    assert messages.count(said) == 3
    answer = search.recommendation()
    assert answer.top[0]["joule_per_sample"] == 1.0 and answer.candidates == 6
    assert any("3 result(s) whose energy was got in another way" in note for note in answer.notes)


def test_a_disturbed_run_is_made_once_more_and_then_left_out() -> None:
    """Three disturbed runs: the first configuration gets two tries and no figures, the second one succeeds."""
    machine = Machine(disturbed=3)
    search, messages = live(machine)
    search.search(8)
    assert machine.asked[0] == machine.asked[1] and machine.asked[2] == machine.asked[3]
    assert machine.asked[0] not in {d["submission"]["digest"] for d in search.documents}
    assert len(search.documents) == 7
    assert any("invalid: interference" in line for line in messages)


def test_a_configuration_that_fails_is_not_recommended() -> None:
    """Every job with two threads fails: it is told why, and the best has one thread."""
    search, messages = live(Machine(broken=2))
    search.search(8)
    assert any("failed: serve, it died" in line for line in messages)
    by_digest = {job.digest: job for job in JOBS}
    assert all(by_digest[d["submission"]["digest"]].spec.serve.threads == 1 for d in search.documents)
    assert search.recommendation().top


def test_an_unsure_order_is_settled_by_repeats() -> None:
    """Two configurations 6% apart: both run again, up to the runs allowed, and no third one."""
    sent = [(job, job.spec.traffic) for job in JOBS]
    pair = [job for job, load in sent if load.batch_size == 8 and load.arrivals.concurrency == 1]  # type: ignore[attr-defined]
    machine = Machine()
    search = LiveSearch(pair, GOAL, machine.run, lambda text: None)
    search.documents = [machine.run(job) for job in pair]
    for document, rate in zip(search.documents, (106.0, 100.0), strict=True):
        document["summary"]["throughput_samples_per_s"] = rate
    machine.asked.clear()
    search.settle(3)
    assert len(machine.asked) == 3 or not search.recommendation().reruns
    assert set(machine.asked) <= {job.digest for job in pair} and machine.asked


def test_the_goal_is_the_submissions_slo_and_what_is_added() -> None:
    """Every part of the SLO becomes a bound; latency is minimised; an unknown figure is refused."""
    slo = SloSpec.model_validate({"p95_ms": 50, "throughput_rps": 10})
    goal = goal_of("p50_ms", slo, [Bound("rss_bytes", True, 1e9)])
    assert not goal.higher
    assert [str(bound) for bound in goal.bounds] == [
        "p95_ms ≤ 50", "throughput_rps ≥ 10", "error_ratio ≤ 0", "rss_bytes ≤ 1e+09",
    ]  # fmt: skip
    with pytest.raises(InputError, match="Unknown figure"):
        goal_of("speed", None)


def test_a_point_in_words() -> None:
    """Short names, nested settings in braces."""
    point = {"serve.threads": 2, "serve.batching": {"max_delay_ms": 0.5}, "load.network": None}
    assert point_text(point) == "threads 2, batching {max_delay_ms 0.5}, network none"
    assert point_text({}) == "as submitted"


def test_a_goal_of_a_request_over_several_batch_sizes_is_warned_of_before_anything_runs() -> None:
    """Before runs are spent the search says that the sizes differ and which figure compares samples."""
    for objective, warned in (("throughput", True), ("throughput_samples_per_s", False)):
        messages: list[str] = []
        goal = goal_of(objective, SUBMISSION.slo)
        assert goal.higher
        LiveSearch(JOBS, goal, Machine().run, messages.append).search(0)
        assert (
            "1, 2, 4, 8 samples" in messages[0] and "Use throughput_samples_per_s" in messages[0]
        ) == warned


class FakeDb:
    """FAKE: a PerfDB that answers conditions of equality on these results."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        self.documents = documents

    def find_raw(self, where: dict[str, Any]) -> list[dict[str, Any]]:
        """The documents that match the filter, as PerfDB finds them."""

        def matches(document: dict[str, Any], path: str, wanted: Any) -> bool:
            value = value_at(document, path)
            return value in wanted["$in"] if isinstance(wanted, dict) else bool(value == wanted)

        return [d for d in self.documents if all(matches(d, *condition) for condition in where.items())]


def test_only_this_machines_device_counts_as_measured_before() -> None:
    """Another GPU model's results and those on other cores are no measurement here; an unknown device has none."""

    def on(run_id: str, name: str, cores: float | None) -> dict[str, Any]:
        device = {"kind": "gpu", "name": name, "cores": cores}
        return result(
            run_id, submission={"name": "space", "digest": JOBS[0].digest}, device=device
        ).model_dump()

    db: Any = FakeDb(
        on("mine", "Tesla T4", 8), on("other-gpu", "NVIDIA A100-SXM4-80GB", 8), on("other-cores", "Tesla T4", 2),
        on("old", "Tesla T4", None),
    )  # fmt: skip
    assert [d["run_id"] for d in measured_before(db, JOBS, "Tesla T4", 8)] == ["mine"]
    assert measured_before(db, JOBS, None, 8) == []


def test_what_several_devices_measured_before_is_theirs() -> None:
    """Of the cores that they are divided into, with what is left over for the balancer; one device's results are none
    of two's, nor the other way round."""
    one, two = expand(
        Submission.model_validate(
            {
                "name": "space",
                "model": {"kind": "zoo", "name": "digits"},
                "load": {"arrivals": {"kind": "closed_loop", "concurrency": 1}},
                "sweep": {"serve.devices": [1, 2]},
            }
        )
    )

    def on(run_id: str, job: Job[JobSpec], name: str, cores: float) -> dict[str, Any]:
        device = {"kind": "cpu", "name": name, "cores": cores}
        return result(run_id, submission={"name": "space", "digest": job.digest}, device=device).model_dump()

    db: Any = FakeDb(
        on("one", one, "A CPU", 5), on("two", two, "2 x A CPU with 1 core for nginx", 4),
        on("small", two, "2 x A CPU with 1 core for nginx", 2), on("shared", two, "2 x A CPU", 4),
        on("wrong", two, "A CPU", 5), on("wrong-too", one, "2 x A CPU with 1 core for nginx", 4),
    )  # fmt: skip
    assert [d["run_id"] for d in measured_before(db, [one, two], "A CPU", 5)] == ["one", "two"]
    assert [d["run_id"] for d in measured_before(db, [one, two], "A CPU", 4)] == ["shared"]
