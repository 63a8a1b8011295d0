"""CPU time of a sample."""

from __future__ import annotations

from inferbench_tasks.figures import FIGURES
from inferbench_tasks.metrics.single.cpu_ms_per_sample import cpu_ms_per_sample


def test_it_is_the_cpu_time_of_a_second_over_its_samples() -> None:
    """Half a core for 100 samples/s is 5 ms of each; unknown without CPU or without an answer."""
    summary = {"resources": {"server": {"cpu_cores": {"mean": 0.5}}}, "throughput_samples_per_s": 100.0}
    assert cpu_ms_per_sample(summary) == 5.0
    assert cpu_ms_per_sample({**summary, "resources": {}}) is None
    assert cpu_ms_per_sample({**summary, "throughput_samples_per_s": 0.0}) is None


def test_an_older_result_has_it_too() -> None:
    """From before it was stored: it follows from the figures beside it."""
    summary = {"resources": {"server": {"cpu_cores": {"mean": 0.5}}}, "throughput_samples_per_s": 100.0}
    assert FIGURES["cpu_ms_per_sample"].value(summary) == 5.0
