"""What a predicted processor costs, by hand, and when nothing is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.analysis.devices.costs import BY_BRICKS, MEASURED, Offer, offers
from inferbench_tasks.brick_jobs.instance_costs import with_bricks, with_predictions
from inferbench_tasks.catalogue import CONFIG_DIR
from inferbench_tasks.perfdb.store import PerfDB
from tests.unit.analysis.devices.builders import CPU, MODEL, run

PRICES = """rows:
  - {provider: P, instance: i-old, region: r, kind: cpu, device: old, match: "7R32", vcpus: 2,
     usd_per_hour: 0.36, source: s, date: "2025"}
  - {provider: P, instance: i-new, region: r, kind: cpu, device: new, match: "New", vcpus: 4,
     usd_per_hour: 1.44, unverified: true, source: s, date: "2025"}
  - {provider: Q, instance: i-small, region: r, kind: cpu, device: new, match: "New", vcpus: 1,
     usd_per_hour: 0.1, source: s, date: "2025"}
"""


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of numbers that divide well."""
    (tmp_path / "prices.yaml").write_text(PRICES)
    monkeypatch.setenv(CONFIG_DIR, str(tmp_path))


def offer(users: int = 1) -> Offer:
    (found,) = offers([run("cpu", CPU, 5.0, 100.0, batch=4, users=users)])
    return found


def predicted(**changes: Any) -> dict[str, Any]:
    """40 ms for a request of four samples on two threads of two cores, from 20 to 80."""
    return {
        "model": "m", "digest": MODEL["digest"], "device": "New CPU", "cores": 2, "threads": 2, "batch_size": 4,
        "coverage_ratio": 0.95, "predicted_ms": 40.0, "predicted_interval_ms": [20.0, 80.0],
        "calibrated_by": ["x", "y", "z"], "missing": 1, "unique": 9, **changes,
    }  # fmt: skip


def test_a_predicted_processor_stands_beside_the_measured_one() -> None:
    """100 samples/s on two of four vCPUs of 1.44 USD/h: 0.72 / 3,600 / 100 x 1,000 = 0.002, from 0.001 to 0.004. The
    measured one's 0.36 makes 0.001. Two cores of an instance of one vCPU are two of them, as where it was measured:
    0.2 / 3,600 / 100 x 1,000 = 0.000556.
    """
    rows = with_predictions(offer(), [predicted()]).rows
    assert [(row["instance"], row["basis"]) for row in rows] == [
        ("i-small", BY_BRICKS),
        ("i-old", MEASURED),
        ("i-new", BY_BRICKS),
    ]
    assert rows[0]["usd_per_1k_samples"] == pytest.approx(0.2 / 360)
    assert rows[1]["usd_per_1k_samples"] == pytest.approx(0.001)
    new = rows[2]
    assert (new["usd_per_1k_samples"], new["throughput_samples_per_s"]) == (pytest.approx(0.002), 100.0)
    assert new["ci95"] == pytest.approx([0.001, 0.004])
    assert new["device"] == "New CPU, 2 cores, 2 thread(s)" and new["price"] == "2025, unverified"
    assert (
        "95.0% of its time measured" in new["rests_on"]
        and "what a server adds is not in it" in new["rests_on"]
    )


def test_a_predicted_processor_says_of_which_sizes_of_inputs_it_is() -> None:
    """A model with free inputs is predicted as it was cut last, which need not be what was served."""
    new = with_predictions(offer(), [predicted(shapes="ids=128", cores=4, threads=4)]).rows[-1]
    assert new["device"] == "New CPU, 4 cores, 4 thread(s), inputs ids=128"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"digest": "other"}, "of another file than the one that was served"),
        ({"coverage_ratio": 0.89}, "only 89.0% of its time is measured, 90% are needed"),
        ({"predicted_ms": None, "coverage_ratio": None}, "1 of 9 unique bricks have no time there"),
        ({"predicted_ms": None, "coverage_ratio": None, "why": "beyond batch 2"}, "beyond batch 2"),
        ({"calibrated_by": []}, "nothing calibrates it"),
        ({"predicted_interval_ms": [0.0, 80.0]}, "reaches down to nothing"),
        ({"device": "Unpriced"}, "no instance with it"),
        ({"cores": 0}, "how many cores it had is not known"),
    ],
)
def test_what_is_not_covered_has_no_row_and_says_why(changes: dict[str, Any], why: str) -> None:
    """Another content, too little measured, no calibration, no interval, no price."""
    found = with_predictions(offer(), [predicted(**changes)])
    assert [row["basis"] for row in found.rows] == [MEASURED]
    assert why in found.notes[-1] and found.notes[-1].startswith("not predicted: ")


def test_all_cores_are_paid_measured_or_predicted() -> None:
    """Bricks are timed on one core with one thread; the measured job had two cores and pays for both, 0.001, and so
    does what stands beside it: two of four vCPUs of 1.44 USD/h, 0.002. Four threads take four vCPUs, 0.004. Beside a
    job whose two threads had two cores one thread pays for one, 0.001."""
    found = with_predictions(offer(), [predicted(threads=1, cores=1)])
    new = next(row for row in found.rows if row["instance"] == "i-new")
    assert new["usd_per_1k_samples"] == pytest.approx(0.002) and new["usd_per_hour"] == pytest.approx(0.72)
    assert "2 vCPU(s) are paid" in new["rests_on"]
    rows = with_predictions(offer(), [predicted(threads=4, cores=4)]).rows
    costs = {row["instance"]: row["usd_per_1k_samples"] for row in rows}
    assert costs["i-new"] == pytest.approx(0.004) and costs["i-old"] == pytest.approx(0.001)
    busy = run("cpu", CPU, 5.0, 100.0, batch=4, provenance={"job": {"serve": {"threads": 2}}})
    rows = with_predictions(offers([busy])[0], [predicted(threads=1, cores=1)]).rows
    costs = {row["instance"]: row["usd_per_1k_samples"] for row in rows}
    assert costs["i-new"] == pytest.approx(0.001) == costs["i-old"]


def test_a_measured_processor_is_not_predicted_too() -> None:
    """Its own throughput stands there already."""
    found = with_predictions(offer(), [predicted(device=CPU["name"])])
    assert [row["basis"] for row in found.rows] == [MEASURED]


def test_a_prediction_of_one_request_stands_beside_no_crowd(perfdb: PerfDB) -> None:
    """Under eight users nothing is foretold, and nothing is asked; of one the model was never cut, which is said."""
    crowd = with_bricks(perfdb, offer(users=8))
    assert [row["basis"] for row in crowd.rows] == [MEASURED] and not any("bricks" in n for n in crowd.notes)
    alone = with_bricks(perfdb, offer())
    assert any("no processor is predicted by bricks: " in note for note in alone.notes), alone.notes
