"""Energy, CO2 and money of a training, against sums worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.catalogue import price_rows
from inferbench_tasks.metrics.carbon import REGION
from inferbench_tasks.monitors.records import EMPTY, Recording, Series
from inferbench_tasks.training import spending
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import Answer, Epoch

SECOND_NS = 1_000_000_000
HARDWARE = {
    "cpu": "AMD EPYC 7763 64-Core Processor",
    "cores_physical": 1,
    "cores_logical": 2,
    "cores_granted": 2,
}


def job(**devices: Any) -> TrainingJob:
    return TrainingJob.model_validate(
        {
            "kind": "training",
            "name": "x",
            "data": {"kind": "dummy", "samples": 1000},
            "train": {"batch_size": 100},
            "devices": {"processes": 2, "strategy": "ddp", **devices},
        }
    )


def answers() -> list[Answer]:
    """Two ranks with two epochs of 5 s each: 2,000 samples in 10 s."""
    return [
        Answer(
            rank=rank, world=2, pid=1, parameters=[], parameter_count=0, device="cpu",
            epochs=[
                Epoch(
                    kind="bare", round=at, started_ns=at * 5 * SECOND_NS, ready_ns=0,
                    ended_ns=(at + 1) * 5 * SECOND_NS,
                )
                for at in range(2)
            ],
        )
        for rank in range(2)
    ]  # fmt: skip


def recording(others: float = 0.0) -> Recording:
    """The packages draw 40 W, while the ranks use 1.5 cores, what watches them 0.01 and others so many."""

    def grows(per_s: float) -> Series:
        return Series(np.arange(0, 11) * SECOND_NS, np.arange(0, 11) * per_s)

    series = {
        ("rapl", "package_j_total"): grows(40.0), ("server", "cpu_s_total"): grows(1.5),
        ("client", "cpu_s_total"): grows(0.01), ("host", "cpu_busy_s_total"): grows(1.51 + others),
    }  # fmt: skip
    return Recording(series, {})


def test_energy_is_of_all_epochs_and_money_of_steps_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 J for 2 epochs of 1,000 samples: 200 J each, 0.2 J a sample; CO2 by the region; money by samples/s."""
    monkeypatch.setenv(REGION, "world")
    told = spending.of_training(answers(), job(), recording(), HARDWARE, 250.0)
    energy, co2, cost = told["energy"], told["co2"], told["cost"]
    assert (energy["per_epoch"], energy["per_million_samples"]) == pytest.approx((200, 200_000))
    assert energy["method"] == "rapl" and energy["power_w"] == pytest.approx(40)
    assert co2["per_epoch"] == pytest.approx(200 / 3.6e6 * co2["g_per_kwh"])
    assert price_rows()
    hourly = cost["cheapest"]["usd_per_hour"]
    # An epoch of 1,000 samples takes 4 s at 250 samples/s.
    assert cost["per_epoch"] == pytest.approx(hourly * 4 / 3600)
    assert cost["per_million_samples"] == pytest.approx(1000 * cost["per_epoch"])


def test_what_others_drew_is_not_the_trainings() -> None:
    """Of 2.01 cores that were used another job had 0.5, 25%: the 200 J of an epoch are of both. The training has what
    1.5 threads of two that share one of 64 cores of 280 W take: 3.28 W, 16.4 J in the 5 s of an epoch.
    """
    energy = spending.of_training(answers(), job(), recording(0.5), HARDWARE, 250.0)["energy"]
    assert energy["method"] == "tdp_estimate" and energy["machine"] is None
    assert energy["per_epoch"] == pytest.approx(1.5 * 280 / 64 / 2 * 5)
    assert energy["left_out"]["rapl"]["per_epoch"] == pytest.approx(200)
    assert "24.9% of the CPU time" in energy["left_out"]["rapl"]["reason"]
    alone = spending.of_training(answers(), job(), recording(), HARDWARE | {"cores_allowed": [0]}, 250.0)
    assert alone["energy"]["per_epoch"] == pytest.approx(200)
    assert alone["energy"]["uncertainty_ratio"] == pytest.approx(0.53)


def test_money_is_for_all_devices_that_were_held() -> None:
    """Four T4 at 0.526 USD/h each: 2.104 USD/h, for 1,000 samples at 500/s 2 s of them. The cores of a job on two
    devices are those of both already."""
    gpus = HARDWARE | {"gpus": [{"name": "Tesla T4"}] * 4}
    held = job(kind="gpu", count=4, processes=1)
    cost = spending.of_training(answers(), held, EMPTY, gpus, 500.0)["cost"]
    cheapest = cost["cheapest"]
    assert (cheapest["instance"], cheapest["devices"]) == ("g4dn.xlarge", 4)
    assert cheapest["usd_per_hour"] == pytest.approx(4 * 0.526)
    assert cheapest["usd_per_1k_samples"] == pytest.approx(4 * 0.526 * 2 / 3600)
    assert cost["per_million_samples"] == pytest.approx(1000 * cheapest["usd_per_1k_samples"])
    assert cost["per_epoch"] == pytest.approx(4 * 0.526 * 2 / 3600)
    one, two = (
        spending.of_training(answers(), job(count=count, processes=2 // count), EMPTY, HARDWARE, 500.0)[
            "cost"
        ]
        for count in (1, 2)
    )
    assert one == two and one["cheapest"]["devices"] == 1


def test_what_is_not_known_is_null_with_its_reason() -> None:
    """Never 0: no counter, no samples/s, several GPUs of which one is read, no epoch."""
    told = spending.of_training(answers(), job(), EMPTY, HARDWARE, None)
    assert all(told[name]["per_epoch"] is None and told[name]["reason"] for name in ("energy", "co2", "cost"))
    gpus = spending.of_training(answers(), job(kind="gpu", count=2, processes=1), recording(), HARDWARE, 9.0)
    assert gpus["energy"]["per_epoch"] is None and "one of the 2 GPUs" in gpus["energy"]["reason"]
    assert "one of the 2 GPUs" in gpus["co2"]["reason"]
    none = spending.of_training([], job(), recording(), HARDWARE, 9.0)
    assert none["energy"]["reason"] == none["cost"]["reason"] == "no epoch came to its end"


def test_an_epoch_is_what_its_steps_take() -> None:
    """All samples of a rank, or those of the steps that are allowed."""
    assert spending.samples_of_epoch(job()) == 500
    train = job().train.model_copy(update={"max_steps": 3})
    assert spending.samples_of_epoch(job().model_copy(update={"train": train})) == 300
