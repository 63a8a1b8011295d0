"""Which submissions nights can be of, and which figures they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.errors import InputError
from inferbench_tasks.regression.watched import bisects, comparable, figure_named, sizes_nights, watched
from inferbench_tasks.running.cluster_abilities import MachineAbilities
from inferbench_tasks.submission.systems import System
from inferbench_tasks.training.nights import phase_means

CONFIGS = Path(__file__).parents[3] / "configs"
TRAINING = "kind: training\nname: x\ndata: {kind: digits}\n"


def test_trainings_and_serving_have_figures_of_their_own() -> None:
    """Each kind's are found by name alone; the first of each says how many pairs a night needs."""
    names = {kind: [figure.name for figure in watched(kind).figures] for kind in ("serving", "training")}
    assert names["training"] == ["epoch_samples_per_s", "step_ms"] and names["serving"][0] == "p50_ms"
    assert not set(names["training"]) & set(names["serving"])
    for kind, of in names.items():
        assert [figure_named(name).name for name in of] == of, kind
    assert [name for of in names.values() for name in of if sizes_nights(name)] == [
        "p50_ms",
        "epoch_samples_per_s",
    ]
    with pytest.raises(InputError, match="Unknown figure 'nonsense'"):
        figure_named("nonsense")


def test_the_shipped_nights_can_be_compared() -> None:
    """All of the folder, of both kinds; a training has no block that starts bisections."""
    submissions = [comparable(path, "A night") for path in sorted((CONFIGS / "nightly").glob("*.yaml"))]
    assert {submission.kind for submission in submissions} == {"serving", "training"}
    assert not any(bisects(of) for of in submissions if of.kind == "training")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            TRAINING + "devices: {strategy: ddp}\nsweep: {devices.count: [1, 2]}\n",
            "A night holds one device; job 1 of x needs 2: give devices.processes",
        ),
        (
            TRAINING + "sweep:\n  train.batch_size: [8, 16]\n  order: interleaved\n",
            "take order: interleaved out",
        ),
    ],
)
def test_what_no_night_can_compare_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """Several devices, an order of the submission's own."""
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        comparable(file, "A night")


def test_kinds_without_figures_of_nights_are_refused() -> None:
    """With the kinds that have some."""
    with pytest.raises(
        InputError, match="A night needs a submission of kind serving or training; .* is of kind bricks"
    ):
        comparable(CONFIGS / "submissions" / "bricks" / "two-small.yaml", "A night")


def test_a_steps_phases_and_what_lies_between_explain_it() -> None:
    """Means in ms; phases without one are left out, and a run without phases has nothing."""
    timing = {
        "phases": {"loading": {"wall_ms": {"mean": 2}}, "forward": {"wall_ms": {"mean": None}}},
        "unexplained_ms": 0.5,
    }
    assert phase_means({"summary": {"synchronised": timing}}) == {"loading": 2.0, "between": 0.5}
    assert phase_means({"summary": {"synchronised": {"phases": None, "unexplained_ms": None}}}) == {}
    assert phase_means({"summary": None}) == {}


def test_a_night_may_ask_for_systems_but_for_one_only(tmp_path: Path) -> None:
    """To be compared its form is enough: each side chooses where it runs. What is known is asked where it is given."""
    file = tmp_path / "x.yaml"
    head = "name: x\nmodel: {kind: zoo, name: digits}\nload: {arrivals: {kind: poisson, rate_rps: 5}}\n"
    file.write_text(head + "systems: {cores: '>=99999'}\n")
    submission = comparable(file, "A night")
    assert submission.systems is not None and submission.system is None  # type: ignore[attr-defined]
    machine = MachineAbilities(here=lambda: [System("a.cpu", DeviceSpec("cpu"), "EPYC", "x86_64", 8)])
    with pytest.raises(InputError, match=r"systems\.cores: >=99999 is missed by a\.cpu \(8\)"):
        comparable(file, "A night", machine)
    file.write_text(head + "systems: {cores: '>=2'}\n")
    chosen = comparable(file, "A night", machine)
    assert chosen.system.alike == ("a.cpu",)  # type: ignore[attr-defined]
    file.write_text(head + "systems: {all: true}\n")
    with pytest.raises(InputError, match="A night is of one kind of system"):
        comparable(file, "A night")
