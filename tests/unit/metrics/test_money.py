"""CO2 and cost: figures by hand, of the cores and the device that a job had, and None with a reason instead of 0."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.metrics.carbon import REGION
from inferbench_tasks.monitors.environment import granted_cores
from tests.unit.metrics.spent import EPYC, T4, counter, measure


def test_co2_is_energy_times_the_regions_intensity(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.3 J x 1,000 at 56 g/kWh are 4.67 mg; the region, its source and date are told."""
    monkeypatch.setenv(REGION, "france")
    found = measure({("gpu", "energy_j_total"): counter(60.0)}, T4, "gpu")
    assert found["co2_g_per_1k"] == pytest.approx(300 / 3.6e6 * 56, rel=0.01)
    assert found["carbon"]["date"] == "2023" and "Ember" in found["carbon"]["source"]


def test_an_unknown_region_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A region that the table does not have is an error, not the world's mean."""
    monkeypatch.setenv(REGION, "atlantis")
    with pytest.raises(InputError, match="'atlantis' is unknown; known: world, "):
        measure({("gpu", "energy_j_total"): counter(60.0)}, T4, "gpu")


def test_cost_is_the_hourly_rate_over_an_hours_requests() -> None:
    """0.526 USD/h at 200 requests/s are 0.00073 USD per 1,000; all providers stand there, the cheapest first."""
    cost = measure({}, T4, "gpu")["cost"]
    assert cost["usd_per_1k"] == pytest.approx(0.526 / 3600 / 200 * 1000)
    assert [entry["provider"] for entry in cost["instances"]] == ["AWS", "Google Cloud"]


def test_a_sample_has_its_share_of_a_requests_energy_co2_and_cost() -> None:
    """With four samples in a request each has a quarter, stored beside the request's; all or none is known."""
    found = measure({("gpu", "energy_j_total"): counter(60.0)}, T4, "gpu", batch_size=4)
    assert found["energy"]["joule_per_sample"] == pytest.approx(found["energy"]["joule_per_request"] / 4)
    assert found["co2_g_per_1k_samples"] == pytest.approx(found["co2_g_per_1k"] / 4)
    assert found["cost_usd_per_1k_samples"] == pytest.approx(found["cost_usd_per_1k"] / 4)
    unknown = measure({}, {"cpu": "Unheard-of 9000", "cores_logical": 2, "gpus": []})
    assert unknown["co2_g_per_1k_samples"] is None and unknown["cost_usd_per_1k_samples"] is None


def test_a_cpu_instance_is_scaled_to_this_machines_cores() -> None:
    """2 of 2 vCPUs cost the whole instance, 1 of 2 half of it; an approximate row says so."""
    one, two = (measure({}, {**EPYC, "cores_logical": n})["cost"] for n in (1, 2))
    assert two["usd_per_1k"] == pytest.approx(2 * one["usd_per_1k"])
    assert two["instances"][0]["approximate"] is True


def test_a_pinned_job_costs_the_cores_that_it_had() -> None:
    """3 of 16 cores by affinity cost 3/16 of the machine; a quota of 1.5 cores halves that, and counts alone too."""
    machine = {**EPYC, "cores_logical": 16}
    whole = measure({}, machine)["cost"]["usd_per_1k"]
    for given, cores in (
        ({"cores_allowed": [4, 5, 6]}, 3.0),
        ({"cores_allowed": [4, 5, 6], "cpu_limit_cores": 1.5}, 1.5),
        ({"cpu_limit_cores": 2.0}, 2.0),
        ({"cores_allowed": [4], "cpu_limit_cores": 8.0}, 1.0),
    ):
        pinned: dict[str, Any] = {**machine, **given}
        assert granted_cores(pinned) == cores
        assert measure({}, pinned)["cost"]["usd_per_1k"] == pytest.approx(whole * cores / 16)


def test_a_missing_price_is_named() -> None:
    """A device that no instance has: None, and which device."""
    cost = measure({}, {"cpu": "Unheard-of 9000", "cores_logical": 2, "gpus": []})["cost"]
    assert cost["usd_per_1k"] is None and "'Unheard-of 9000'" in cost["reason"]


def test_a_gpus_price_is_of_the_one_that_was_used() -> None:
    """Not of the machine's first; none where it is not known which one it was."""
    both = [{"name": "Tesla T4"}, {"name": "Tesla V100-SXM2-16GB"}]
    hardware: dict[str, Any] = {**T4, "gpus": both}
    used = measure({}, {**hardware, "gpu": both[1]}, "gpu")["cost"]
    assert {entry["device"] for entry in used["instances"]} == {"Tesla V100"}
    assert "tells no name" in measure({}, {**hardware, "gpu": None}, "gpu")["cost"]["reason"]
