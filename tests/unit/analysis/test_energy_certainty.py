"""What a method is wrong by is the same for two runs of one machine: it hides no difference between them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from inferbench_tasks.analysis.certainty import Change, of_result
from inferbench_tasks.analysis.recommend.leaderboard import ranked
from inferbench_tasks.analysis.report.difference_notes import notes_of
from inferbench_tasks.analysis.report.differences import difference
from inferbench_tasks.analysis.report.judged import JudgedRuns
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.stated import part_of, stated
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.metrics.energy import UNCERTAINTY_RATIO
from inferbench_tasks.perfdb.documents import ResultDocument
from tests.unit.perfdb.builders import result

BY_CPU, RAPL, BY_LOAD, BOARD = "tdp_estimate", "rapl", "codecarbon_estimate", "nvml_counter"


def run(
    name: str, joule: float, method: str = BY_CPU, host: str | None = "bench-1", gpu: str | None = None,
    cpu_ci: float | None = None,
) -> ResultDocument:  # fmt: skip
    """A run of so many J/sample, and of CPU time in proportion, with its 95% interval to either side as a share."""
    cpu_ms = 10 * joule
    bounds = [cpu_ms * (1 - cpu_ci), cpu_ms * (1 + cpu_ci)] if cpu_ci else None
    summary: dict[str, Any] = {
        "ok": 5000,
        "energy": {
            "joule_per_sample": joule,
            "method": method,
            "uncertainty_ratio": UNCERTAINTY_RATIO[method],
        },
        "co2_g_per_1k_samples": joule / 9,
        "cpu_ms_per_sample": cpu_ms,
        "cpu_time": {"ci95": {"ms_per_sample": bounds} if bounds else None},
    }
    environment = {"system": {"host": host}, "hardware": {"gpu": {"uuid": gpu}}}
    return result(name, summary=summary, environment=environment)


def change(first: ResultDocument, other: ResultDocument, name: str = "joule_per_sample") -> Change:
    """Between the two runs' figure."""
    figure = FIGURES[name]
    sides = []
    for each in (first, other):
        part = part_of(each)
        value = figure.value(part["summary"])
        assert value is not None
        sides.append(of_result(figure, value, stated=stated(figure, part)))
    return Change.between(*sides)


def test_the_error_of_one_machine_and_method_drops_out_of_the_ratio() -> None:
    """Of two runs what differs from run to run is left: hypot(5%, 5%) = 0.0707, with 6 degrees of freedom. Of two
    machines each side has 60% / 1.96 = 0.3061 as well: sqrt(2) x hypot(0.05, 0.3061) = 0.4387.
    """
    alike = change(run("a", 1.0), run("b", 1.127))
    assert alike.error == pytest.approx(0.070711, rel=1e-4) and alike.freedom == pytest.approx(6)
    other = change(run("a", 1.0), run("b", 1.127, host="bench-2"))
    assert other.error == pytest.approx(0.43866, rel=1e-3)
    shown = difference(run("a", 1.0), run("b", 1.127), "joule_per_sample", {})
    # t(0.975, 6) = 2.4469: 1.127 x exp(-+ 0.17303).
    assert shown.ci95 == pytest.approx((0.9479, 1.3399), rel=1e-3)


@pytest.mark.parametrize("cpu_ci", [None, 0.2])
def test_what_comes_of_cpu_time_is_known_as_well_as_that(cpu_ci: float | None) -> None:
    """Energy and CO2 have the interval of the CPU time they are a multiple of, with its own 20%, too:
    hypot(0.2 / 1.96, 0.2 / 1.96) = 0.1443.
    """
    first, other = run("a", 1.0, cpu_ci=cpu_ci), run("b", 1.127, cpu_ci=cpu_ci)
    names = ("cpu_ms_per_sample", "joule_per_sample", "co2_g_per_1k_samples")
    cpu, energy, co2 = (difference(first, other, name, {}) for name in names)
    assert cpu.ci95 is not None
    assert energy.ci95 == pytest.approx(cpu.ci95) and co2.ci95 == pytest.approx(cpu.ci95)
    if cpu_ci:
        assert change(first, other).error == pytest.approx(math.sqrt(2) * 0.2 / 1.96, rel=1e-3)


@pytest.mark.parametrize(
    ("first", "other", "drops_out"),
    [
        (run("a", 1.0, RAPL), run("b", 1.2, RAPL), True),
        (run("a", 1.0, RAPL), run("b", 1.2, BY_CPU), False),
        (run("a", 1.0, host=None), run("b", 1.2, host=None), False),
        # A curve over the load is wrong by another factor at another load.
        (run("a", 1.0, BY_LOAD), run("b", 1.2, BY_LOAD), False),
        (run("a", 1.0, BOARD, gpu="GPU-1"), run("b", 1.2, BOARD, gpu="GPU-1"), True),
        (run("a", 1.0, BOARD, gpu="GPU-1"), run("b", 1.2, BOARD, gpu="GPU-2"), False),
        (run("a", 1.0, BOARD), run("b", 1.2, BOARD), False),
    ],
    ids=["rapl", "two methods", "no host", "curve", "one board", "two boards", "no board"],
)
def test_only_a_factor_that_is_surely_the_same_drops_out(
    first: ResultDocument, other: ResultDocument, drops_out: bool
) -> None:
    """By one method on one machine; who does not know the machine does not know the factor."""
    assert (change(first, other).error == pytest.approx(math.sqrt(2) * 0.05)) is drops_out


def test_two_energies_of_one_machine_are_ranked_as_far_apart_as_they_are() -> None:
    """0.643 and 1.04 J are no tie of one machine, 62% apart; of two machines nobody can tell."""
    one, two, elsewhere = run("a", 0.643), run("b", 1.04), run("c", 1.04, host="bench-2")
    figure = FIGURES["joule_per_sample"]
    assert [row["rank"] for row in ranked([one.model_dump(), two.model_dump()], figure, ())] == [1, 2]
    assert [row["rank"] for row in ranked([one.model_dump(), elsewhere.model_dump()], figure, ())] == [1, 1]


def test_an_estimate_of_a_share_is_not_ranked_before_a_counter_of_the_whole() -> None:
    """0.1 J of the server's own work by an estimate, 2 J of all packages with what idles there: whoever is better,
    these two don't say. A CO₂ is ranked and compared within one region's electricity.
    """
    part, whole = run("a", 0.1, BY_CPU), run("b", 2.0, RAPL)
    made = ranked([part.model_dump(), whole.model_dump()], FIGURES["joule_per_sample"], ())
    assert [(row["rank"], row["load"].rpartition(", ")[2]) for row in made] == [
        (1, "energy by rapl"),
        (1, "energy by tdp_estimate"),
    ]
    assert difference(part, whole, "joule_per_sample", {}).verdict is None
    assert difference(run("a", 0.1, RAPL), whole, "joule_per_sample", {}).verdict == "worse"
    france, world = (emitting(name, per_kwh) for name, per_kwh in (("f", 56.0), ("w", 480.0)))
    co2 = FIGURES["co2_g_per_1k_samples"]
    made = ranked([france.model_dump(), world.model_dump()], co2, ())
    assert [(row["rank"], row["load"].rpartition(", ")[2]) for row in made] == [
        (1, "480 g CO2e/kWh"),
        (1, "56 g CO2e/kWh"),
    ]
    assert difference(france, world, co2.name, {}).verdict is None
    assert difference(france, world, "joule_per_sample", {}).verdict == "no difference shown"
    assert difference(france, emitting("g", 56.0, 20.0), co2.name, {}).verdict == "worse"
    [note] = [text for text in notes_of([france, world], {}) if "CO₂" in text]
    assert "(480 g CO2e/kWh; 56 g CO2e/kWh)" in note
    assert not any("CO₂" in text for text in notes_of([france, emitting("g", 56.0)], {}))


def emitting(name: str, per_kwh: float, joule: float = 1.0) -> ResultDocument:
    """So much a sample, by RAPL: 1,000 of 1 J are 1/3,600 kWh."""
    of_1k = joule * per_kwh / 3600
    summary = run(name, joule, RAPL).summary.model_dump() | {
        "co2_g_per_1k": of_1k, "co2_g_per_1k_samples": of_1k, "carbon": {"g_per_kwh": per_kwh},
    }  # fmt: skip
    del summary["cpu_ms_per_sample"]
    return result(name, summary=summary, environment={"system": {"host": "bench-1"}})


def test_a_report_and_the_papers_page_are_as_sure() -> None:
    """Whoever judges runs at hand knows their machines, too: 1 and 1.4 J differ beyond the 0.0707 of two runs, which is
    less than ln 1.4 = 0.336; with the method's own error of 0.4387 they would not.
    """
    one, two = (RunView(each.run_id, {}, None, each, None) for each in (run("a", 1.0), run("b", 1.4)))
    assert JudgedRuns([one, two]).differ(one, two, "joule_per_sample", surely=0.99)


def test_a_gpu_that_was_looked_up_once_is_no_other_processor() -> None:
    """The board's number is in one result alone: of an estimate by CPU time that is the same machine."""
    first, other = run("a", 1.0), run("b", 1.127, gpu="GPU-1")
    assert change(first, other).error == pytest.approx(math.hypot(0.05, 0.05))


def of_part(name: str, joule: float, cores: float, others: float = 0.0) -> ResultDocument:
    """By the packages of a machine of two cores, of which the job had so many."""
    document = run(name, joule, RAPL).model_dump()
    del document["summary"]["cpu_ms_per_sample"]
    energy = document["summary"]["energy"]
    energy["machine"] = {"cores": cores, "of_cores": 2, "others_ratio": others}
    energy["uncertainty_ratio"] = 0.03 + max(1 - cores / 2, others)
    return ResultDocument.model_validate(document)


def test_of_unlike_parts_of_a_machine_the_idle_power_of_the_rest_is_not_settled() -> None:
    """The packages of one of two cores hold the other's idle power: 53% / 1.96 = 0.2704 beside the 3% / 1.96 = 0.0153
    of both cores, so that 1 and 1.4 J don't differ. Two runs of one core each have that in both.
    """
    half, whole, other = of_part("a", 1.4, 1), of_part("b", 1.0, 2), of_part("c", 1.0, 1)
    apart = change(half, whole)
    [note] = [text for text in notes_of([half, whole], {}) if "unlike parts" in text]
    assert "(1 of 2 cores; all cores)" in note
    assert not any("unlike parts" in text for text in notes_of([half, other], {}))
    assert apart.error == pytest.approx(math.hypot(0.05, 0.2704, 0.05, 0.0153), rel=1e-3)
    assert not apart.settled
    alike = change(half, other)
    assert alike.error == pytest.approx(math.hypot(0.05, 0.05)) and alike.settled
    figure = FIGURES["joule_per_sample"]
    made = ranked([other.model_dump(), half.model_dump()], figure, ())
    assert [row["rank"] for row in made] == [1, 2]
    made = ranked([whole.model_dump(), half.model_dump()], figure, ())
    assert [row["rank"] for row in made] == [1, 1] and made[1]["tie"] is not None


def test_what_others_used_drops_out_of_no_ratio() -> None:
    """4% of the packages may be others' in one run, none in the next, of one machine: hypot(5%, 4%, 5%)."""
    assert change(of_part("a", 1.0, 2, 0.04), of_part("b", 1.0, 2)).error == pytest.approx(
        math.hypot(0.05, 0.04, 0.05), rel=1e-3
    )
