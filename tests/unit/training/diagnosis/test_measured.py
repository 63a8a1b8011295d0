"""What is said of stored results."""

from __future__ import annotations

import os
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.cli import training_diagnose
from inferbench_tasks.cli.training_diagnose import said
from inferbench_tasks.contracts.verdict import Reason, Verdict
from inferbench_tasks.errors import InputError
from inferbench_tasks.monitors import environment
from inferbench_tasks.perfdb.documents import DeviceInfo, Provenance
from inferbench_tasks.submission.base import submission_of
from inferbench_tasks.training.diagnosis import measured
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.measured import Diagnosis, changed_job, diagnose
from inferbench_tasks.training.diagnosis.observation import of_result
from inferbench_tasks.training.diagnosis.verification import beside, require_here
from inferbench_tasks.training.findings import findings
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.result import EngineInfo, TrainingResult
from tests.unit.training.report.results import view

JOB = {
    "kind": "training",
    "name": "x",
    "data": {"kind": "jpeg"},
    "model": {"name": "resnet-18"},
    "train": {"benchmark": "inference", "batch_size": 8},
}


def result(
    factor: int = 1, *, verdict: Verdict | None = None, workers: int = 0, cores: float = 8
) -> TrainingResult:
    """A step of 12 ms: 4 of loading (2 of them a wait), 1 to the device, 5 of forward (3 of them a wait)."""
    of = view("a", factor).result
    assert of.summary is not None
    parts = {
        "read_ms": 0.0,
        "decode_ms": 4.0 * factor,
        "transform_ms": 0.0,
        "collate_ms": 0.0,
        "queued_ms": 0.0,
    }
    loader = {"parts": {**parts, "making_ms": 4.0 * factor}, "start_ms": 7.0, "cpu_s": None, "wait_s": None}
    summary = of.summary.model_copy(update={"loader": loader, "probes": {"hand_over_ms": 0.1}})
    return of.model_copy(
        update={
            "summary": summary,
            "device": DeviceInfo(kind="cpu", cores=cores),
            "provenance": Provenance.model_validate({"job": {**JOB, "loader": {"workers": workers}}}),
            "verdict": verdict or of.verdict,
        }
    )


def test_a_stored_run_is_seen_without_its_waits() -> None:
    """Of making 4 ms half was a wait; of the rest of 8 ms the 3 ms of forward were."""
    run = of_result(result())
    assert run is not None and run.pipeline is not None and run.batch is not None
    assert run.batch.making_ms == 2.0 and run.pipeline.rest_ms == pytest.approx(5.0)
    assert run.pipeline.rest_cpu_ms == 3.0 and run.bare_step_ms == pytest.approx(10.0)


def test_batches_of_loader_processes_are_seen_by_what_each_used() -> None:
    """Those of a short epoch are all made in its warm-up: the processes use nothing within the measured steps. Of 4 ms
    of making 3 were a wait and 0.9 CPU time; an older result has only what was used within the steps.
    """
    of = result(workers=2)
    assert of.summary is not None
    batches = of.summary.synchronised["steps"] * len(of.summary.synchronised["ranks"])
    of.summary.loader |= {"cpu_s": 0.0005 * batches, "wait_s": 0.001 * batches}
    older = of_result(of)
    assert older is not None and older.batch is not None
    assert older.batch.making_ms == pytest.approx(3.0) and older.batch.cpu_ms == pytest.approx(0.5)
    of.summary.loader["parts"] |= {"made_cpu_ms": 0.9, "made_wait_ms": 3.0}
    run = of_result(of)
    assert run is not None and run.batch is not None and run.batch.wait_ms == 3.0
    assert run.batch.making_ms == pytest.approx(1.0) and run.batch.cpu_ms == 0.9
    of.summary.probes["own_making_ms"] = 0.7  # the first batch of a process took more than any other
    warm = of_result(of)
    assert warm is not None and warm.batch is not None and warm.batch.cpu_ms == 0.7


def test_the_costliest_cause_is_the_sentence_and_its_remedy_a_submission() -> None:
    """7 ms become 5.1 with one loader process."""
    of = result()
    diagnosis = diagnose(of)
    assert diagnosis.sentence.startswith("Preparing batches holds it up")
    assert diagnosis.sentence.endswith("That costs 1.9 ms of a step of 12 ms.")
    cause = diagnosis.remedied
    assert cause is not None and cause.gain_s == pytest.approx(0.0019)
    submission = changed_job(of, cause)
    assert submission["loader"] == {"workers": 1} and submission["data"] == {"kind": "jpeg"}
    submission_of(TrainingJob).model_validate(submission)


def test_a_bound_is_said_to_be_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a cause costs 5 ms at most, in the diagnosis and where it is printed."""
    cause = Cause(rule="denormals", kind="cause", sentence="s.", evidence=[], cost_s=0.005, at_most=True)
    monkeypatch.setattr(measured, "causes_of", lambda run: [cause])
    assert diagnose(result()).sentence == "s. That costs at most 5 ms of a step of 12 ms."
    training_diagnose._say_causes([cause])
    assert "It costs at most 0.005 s of a step." in capsys.readouterr().out


def test_the_time_of_reading_the_clocks_is_seen() -> None:
    """0 of older results, which do not tell it."""
    of = result()
    assert of.summary is not None
    of.summary.synchronised["clocks_ms"] = 0.25
    run = of_result(of)
    assert run is not None and run.clocks_ms == 0.25
    del of.summary.synchronised["clocks_ms"]
    run = of_result(of)
    assert run is not None and run.clocks_ms == 0.0


def test_waits_of_threads_that_exchange_hold_no_step_up() -> None:
    """20 ms of theirs in forward leave 8 - 3 = 5 ms of the rest of the step, not 1e-6; of several threads of torch the
    sum of all is what is known.
    """
    of = result()
    assert of.summary is not None
    of.summary.synchronised["phases"]["forward"]["wait_ms"] = 20.0
    run = of_result(of)
    assert run is not None and run.rest_wait_ms == pytest.approx(3) and run.phases["loading"].wait_ms == 2
    assert run.pipeline is not None and run.pipeline.rest_ms == pytest.approx(5)
    job = {**JOB, "devices": {"threads": 2}}
    several = of_result(of.model_copy(update={"provenance": Provenance.model_validate({"job": job})}))
    assert several is not None and several.phases["forward"].wait_ms == 20


def test_a_remedy_without_loader_processes_is_a_submission_that_can_be_run() -> None:
    """What only processes have (batches ahead, that they stay, how they start) goes with them; the rest stays."""
    loader = {"workers": 4, "prefetch": 8, "persistent": True, "context": "spawn", "shuffle": True}
    of = result().model_copy(
        update={"provenance": Provenance.model_validate({"job": {**JOB, "loader": loader}})}
    )
    cause = Cause(
        rule="transfer", kind="cause", sentence="s", evidence=[], changes={"loader.workers": 0}, cost_s=0.005
    )
    submission = changed_job(of, cause)
    assert submission["loader"] == {"shuffle": True}
    assert findings(TrainingJob.model_validate(submission)) == []
    fewer = changed_job(of, cause.model_copy(update={"changes": {"loader.workers": 2}}))
    assert fewer["loader"] == {**loader, "workers": 2}


def test_a_disturbed_run_names_no_cause_but_what_disturbed_it() -> None:
    """Its figures are bounds."""
    reason = Reason(check="interference.steal", text="the hypervisor took 30% of the machine's CPU time")
    of = diagnose(result(verdict=Verdict.judged([reason])))
    assert of.causes == [] and of.sentence == f"No cause is named, for the run is disturbed: {reason.text}."


def test_a_prediction_stands_beside_the_truth() -> None:
    """12 - 1.9 = 10.1 ms were predicted; a run of the same batch takes 12 ms again."""
    of = result()
    truth = beside(diagnose(of), of, result())
    assert truth.predicted_ms == pytest.approx(10.1) and truth.measured_ms == pytest.approx(12.0)
    assert truth.predicted_by_measured == pytest.approx(10.1 / 12)
    assert truth.predicted_gain_ms == pytest.approx(1.9) and truth.measured_gain_ms == pytest.approx(0.0)


def test_a_remedy_without_a_prediction_has_none_beside_the_truth() -> None:
    """Fewer loader processes against too little memory: 12 ms are measured, nothing was predicted."""
    cause = Cause(
        rule="memory", kind="cause", sentence="s", evidence=[], changes={"loader.workers": 1}, cost_s=0.005
    )
    of = result()
    truth = beside(Diagnosis(run_id=of.run_id, sentence="s", step_s=0.012, causes=[cause]), of, result())
    assert (
        truth.predicted_ms is None and truth.predicted_gain_ms is None and truth.predicted_by_measured is None
    )
    assert truth.measured_ms == pytest.approx(12.0) and "predicted nothing, measured 12 ms" in said(truth)


def test_a_remedy_that_was_disturbed_has_no_truth() -> None:
    """Its verdict stands instead of a figure."""
    of = result()
    disturbed = result(verdict=Verdict.judged([Reason(check="interference.steal", text="stolen")]))
    truth = beside(diagnose(of), of, disturbed)
    assert truth.measured_ms is None and truth.measured_gain_ms is None
    assert truth.verdict == "disturbed: stolen"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"device": DeviceInfo(kind="cpu", cores=2)}, "cores 2 instead of 8"),
        ({"device": DeviceInfo(kind="cpu", name="x", cores=8)}, "device x instead of unknown"),
        ({"cluster": "b"}, "cluster b instead of unknown"),
        (
            {"engine": EngineInfo(kind="torchrun", strategy="ddp", processes=1, threads=1, version="2.8")},
            "torch 2.8 instead of unknown",
        ),
    ],
)
def test_a_remedy_that_ran_elsewhere_measures_nothing(changes: dict[str, Any], reason: str) -> None:
    """Another device, fewer cores, another cluster or torch: what the step became then is not the remedy's doing."""
    of = result()
    truth = beside(diagnose(of), of, result().model_copy(update=changes))
    assert truth.measured_ms is None and truth.measured_gain_ms is None and truth.verdict == "valid"
    assert truth.reason == reason and reason in said(truth)


def test_a_remedy_is_not_run_on_another_machine_than_the_run_was() -> None:
    """Refused with what differs and what helps; on this machine it is not."""
    hardware = environment.hardware()
    device = DeviceInfo(
        kind="cpu",
        name=environment.device_name("cpu", hardware),
        cores=environment.granted_cores(hardware),
    )
    here = result().model_copy(update={"device": device, "cluster": os.environ.get(settings.CLUSTER) or None})
    require_here(here)
    for other in ({"device": DeviceInfo(kind="cpu", name="x", cores=device.cores)}, {"cluster": "far"}):
        with pytest.raises(InputError, match=r"another machine than the run was .*--write FILE"):
            require_here(here.model_copy(update=other))


def test_cores_of_devices_that_are_held_together_are_added() -> None:
    """Two devices of two cores each are four."""
    of = result(cores=2).model_copy(
        update={
            "extensions": {
                "devices": [{"device_id": "a", "cores": [0, 1]}, {"device_id": "b", "cores": [2, 3]}]
            }
        }
    )
    run = of_result(of)
    assert run is not None and run.cores == 4
    assert isinstance(diagnose(of), Diagnosis)


def test_ranks_that_are_pinned_have_no_more_cores_than_those() -> None:
    """Of many granted cores one for each rank is what the pipeline may use."""
    of = result(cores=64)
    job = {**of.provenance.model_dump()["job"]}
    job["devices"] = {**job.get("devices", {}), "cores": 1}
    pinned = of.model_copy(update={"provenance": of.provenance.model_copy(update={"job": job})})
    free, bound = of_result(of), of_result(pinned)
    assert free is not None and bound is not None
    assert bound.cores == bound.processes < free.cores == 64
