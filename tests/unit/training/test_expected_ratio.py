"""What one run's device should take beside another's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.perfdb.documents import DeviceInfo, Provenance
from inferbench_tasks.training.comparison import compare
from inferbench_tasks.training.expected_ratio import Should, ratio
from inferbench_tasks.training.result import TrainingResult
from tests.unit.training.report.results import view
from tests.unit.training.test_comparison import result

V100, A40 = "Tesla V100-SXM2-32GB", "NVIDIA A40"


def run(device: str, count: int = 1, cluster: str | None = None, **train: Any) -> TrainingResult:
    """A run on so many of a device."""
    return view("a").result.model_copy(
        update={
            "device": DeviceInfo(kind="gpu", name=device, cores=2),
            "cluster": cluster,
            "provenance": Provenance(**{"job": {"train": train, "devices": {"count": count}}}),
        }
    )


def expected(first: TrainingResult, second: TrainingResult) -> Should:
    should = ratio(first, second)
    assert isinstance(should, Should), should
    return should


def reason(first: TrainingResult, second: TrainingResult) -> str:
    should = ratio(first, second)
    assert isinstance(should, str)
    return should


def test_a_factor_is_that_of_as_many_devices_as_the_runs_had() -> None:
    """A V100 has 0.943 of one A40's speed, eight have 0.927 of eight's: 1.060 and 1.079 times the time."""
    assert expected(run(A40), run(V100)).low == pytest.approx(1 / 0.943)
    eight = expected(run(A40, 8), run(V100, 8))
    assert eight.low == eight.high == pytest.approx(1 / 0.927)
    assert expected(run(V100, 8), run(A40, 8)).low == pytest.approx(0.927)


def test_a_systems_name_of_a_device_is_found_under_the_tables() -> None:
    """The driver says "Tesla V100-SXM2-32GB", the table "V100"; their product is one."""
    assert expected(run(A40), run(V100)) == expected(run("A40"), run("V100"))


def test_a_clusters_own_devices_come_before_the_product() -> None:
    """A V100 of JADE2 has 0.67 of a V100's speed: 1.583 times an A40's time, and 1.493 times another cluster's V100."""
    jade = run(V100, cluster="JADE2")
    assert expected(run(A40), jade).low == pytest.approx(1 / (0.67 * 0.943))
    assert expected(run(V100, cluster="other"), jade).low == pytest.approx(1 / 0.67)
    assert ratio(jade, jade) is None


def test_a_device_of_one_name_is_to_be_as_fast_on_every_cluster() -> None:
    """No factor leads from an A40 to an A40: 1, but for backward where gradients cross a link, which they do in no
    inference; a processor is one only with as many cores.
    """
    old, new = run(A40, cluster="old"), run(A40, cluster="new")
    should = expected(old, new)
    assert (should.low, should.high, should.phases) == (1, 1, ("forward", "loss", "backward", "optimiser"))
    assert ratio(old, run(A40, cluster="old")) is None
    two = view("a", ranks=2).result.engine
    several = [of.model_copy(update={"engine": two}) for of in (run(A40, 2, "old"), run(A40, 2, "new"))]
    trained = [of.model_copy(update={"benchmark": "train"}) for of in several]
    assert "backward" not in expected(*trained).phases
    inferred = expected(*several)
    assert inferred.phases == should.phases and "gradients" not in " ".join(inferred.sources)

    def cpus(of: TrainingResult, cores: float) -> TrainingResult:
        return of.model_copy(update={"device": DeviceInfo(kind="cpu", name="cpu", cores=cores)})

    assert expected(cpus(old, 2), cpus(new, 2)).low == 1
    assert "had 2 and 8 cores of one processor" in reason(cpus(old, 2), cpus(new, 8))


def test_factors_of_another_version_are_said_and_break_nothing() -> None:
    """What a later version keeps in the block ``expected`` is left aside, with the run that has it."""
    later = run(A40)
    for block in ({"factors": [{"device": "A40", "times": 2}]}, {"factors": "A40"}):
        job = {**later.provenance.model_dump()["job"], "expected": block}
        of = later.model_copy(update={"provenance": Provenance(**{"job": job})})
        assert "can't read the factors that x-1.a was given" in reason(of, run(V100))
    assert expected(
        later.model_copy(update={"provenance": Provenance(**{"job": {"expected": ["A40"]}})}), run(V100)
    )


def test_runs_of_different_numbers_of_devices_have_no_expectation() -> None:
    """One and eight: neither factor is of both, and the reason says so."""
    assert "1 and 8 devices" in reason(run(A40), run(V100, 8))


def test_runs_that_share_a_device_among_more_have_no_expectation() -> None:
    """Two ranks on one V100 take twice as long each, which is no slow V100; torch's threads count on a processor."""

    def having(of: TrainingResult, kind: str = "gpu", **devices: int) -> TrainingResult:
        assert of.device is not None
        job = of.provenance.model_dump()["job"]
        return of.model_copy(
            update={
                "device": of.device.model_copy(update={"kind": kind}),
                "provenance": Provenance(**{"job": {**job, "devices": {**job["devices"], **devices}}}),
            }
        )

    assert "1 and 2 processes on each device" in reason(run(A40), having(run(V100), processes=2))
    cpus = having(run(A40), "cpu", threads=1), having(run(V100), "cpu", threads=8)
    assert "1 and 8 threads in each process" in reason(*cpus)
    assert expected(having(run(A40), threads=1), having(run(V100), threads=8))


def test_runs_that_compute_differently_have_no_expectation() -> None:
    """Precision, optimiser, compiler and layout change a device's time by themselves."""
    assert "precision: fp32 and bf16" in reason(run(A40), run(V100, precision="bf16"))
    assert "compile: False and True" in reason(run(A40), run(V100, compile=True))


def test_without_a_factor_datasheets_bound_the_ratio_and_say_so() -> None:
    """V100 to H100, fp32: 15.7 / 67 TFLOP/s = 0.2343, and 900 / 3350 GB/s = 0.2687."""
    should = expected(run(V100), run("NVIDIA H100 80GB HBM3"))
    assert (should.low, should.high) == pytest.approx((15.7 / 67, 900 / 3350))
    assert should.sources[0].startswith("by datasheets, for configs/expected_speed.yaml has no factors")
    assert any("15.7 TFLOP/s in fp32, 900 GB/s" in line for line in should.sources)


def test_factors_of_four_devices_are_not_there_and_datasheets_take_their_place() -> None:
    """The table has one and eight: 37.4 / 15.7 = 2.38 by computing, 696 / 900 = 0.773 by memory."""
    should = expected(run(A40, 4), run(V100, 4))
    assert (should.low, should.high) == pytest.approx((696 / 900, 37.4 / 15.7))


def test_backward_has_no_datasheet_where_gradients_are_exchanged() -> None:
    """The link is in it."""
    two = view("a", ranks=2).result
    first, second = (
        of.model_copy(update={"engine": two.engine, "benchmark": "train"})
        for of in (run(V100, 2), run("NVIDIA L4", 2))
    )
    assert expected(first, second).phases == ("forward", "loss", "optimiser")


def test_half_precision_is_compared_by_peaks_of_tensor_cores() -> None:
    """A V100's 125 TFLOP/s beside an L4's 121 and an H100's 989; a P4 has no tensor cores, a V100 none for bf16."""
    should = expected(run(V100, precision="fp16"), run("NVIDIA H100 80GB HBM3", precision="fp16"))
    assert (should.low, should.high) == pytest.approx((125 / 989, 900 / 3350))
    assert "no peak in fp16 of Tesla P4" in reason(
        run("Tesla P4", precision="fp16"), run("NVIDIA L4", precision="fp16")
    )
    assert "no peak in bf16 of Tesla V100" in reason(
        run(V100, precision="bf16"), run("NVIDIA L4", precision="bf16")
    )


def test_processors_and_unknown_devices_have_the_reason() -> None:
    """A job has some cores of a processor; what no table has can't be bounded."""
    cpus = run("Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz"), run("AMD EPYC 7763 64-Core Processor")
    assert "whole processors" in reason(*cpus)
    assert "does not have both" in reason(run(V100), run("Graphcore IPU"))


def test_phases_within_the_bounds_are_as_they_should_be() -> None:
    """0.25 of a V100's time on an H100 lies between 0.234 and 0.269; half of it is 1.9 times the larger bound."""
    steps = np.random.default_rng(1).normal(10, 0.01, 200)
    first = result(steps, V100)
    within = compare(first, result(steps * 0.25, "NVIDIA H100 80GB HBM3")).notes
    assert any(
        note.startswith("forward, ms: 0.25 x, expected 0.234 to 0.269 x: as it should be") for note in within
    )
    beyond = compare(first, result(steps * 0.5, "NVIDIA H100 80GB HBM3")).notes
    assert any("1.9 times what it should be" in note for note in beyond)


def test_runs_of_two_precisions_have_their_difference_named() -> None:
    """The factor is of one precision for both devices."""
    steps = np.random.default_rng(1).normal(10, 0.1, 200)
    notes = compare(result(steps, "A40"), result(steps, "V100", precision="bf16")).notes
    assert "precision: fp32 and bf16" in notes and not any(" x, expected" in note for note in notes)


def test_a_boards_figures_are_its_own() -> None:
    """An H100 PCIe has 51 TFLOP/s and 2,000 GB/s, not the 67 and 3,350 of the module: of a V100's time it takes
    15.7/51 = 0.308 to 900/2,000 = 0.45.
    """
    should = ratio(run(V100), run("NVIDIA H100 PCIe"))
    assert not isinstance(should, str) and should is not None
    assert (should.low, should.high) == pytest.approx((15.7 / 51, 0.45))


@pytest.mark.parametrize(
    "name", ["NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H100 96GB HBM3", "Tesla V100-FHHL-16GB"]
)
def test_a_variants_figures_are_not_those_of_its_product(name: str) -> None:
    """A slice, another memory, a card of half the height: the table has no figures of theirs."""
    for runs in ((run(V100), run(name)), (run(name), run("NVIDIA L4"))):
        assert "configs/hardware.yaml does not have both" in reason(*runs)


def test_factors_of_a_submission_count_for_its_runs() -> None:
    """Given by both runs once; given by one of them they hold as well; factors that contradict are the reason."""
    factor = {"device": "B200", "of": "H900", "speed": 2.0, "source": "s", "date": "2025"}

    def with_factors(device: str, *factors: dict[str, Any]) -> TrainingResult:
        of = run(device)
        job = {**of.provenance.model_dump()["job"], "expected": {"factors": list(factors)}}
        return of.model_copy(update={"provenance": Provenance(**{"job": job})})

    assert expected(with_factors("B200", factor), with_factors("H900", factor)).low == pytest.approx(2.0)
    assert expected(with_factors("B200", factor), run("H900")).low == pytest.approx(2.0)
    contrary = {**factor, "speed": 3.0}
    assert "lead in a circle" in reason(with_factors("B200", factor), with_factors("H900", contrary))
