"""A device's document that can't be read."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.device_in_part import device_in_part
from inferbench_tasks.cluster.store import TTL_S

LEASE = {"job": "j", "token": 3, "nonce": "n", "granted_s": 1.0, "est_end_s": 9.0}
WHOLE = {
    "device_id": "d", "device_type": "t4", "name": "a GPU", "host": "h", "age_s": 1.0, "token": 3, "lease": LEASE
}  # fmt: skip


def read(**wrong: object) -> Device:
    """The document but for these fields."""
    fields = {**WHOLE, **wrong}
    with pytest.raises(ValidationError) as caught:
        Device.model_validate(fields)
    return device_in_part(fields, caught.value)


def test_all_else_of_it_stays() -> None:
    """Its kind, its host, its worker's sign of life and its job's lease; the reason names the field and what is allowed
    there, and nothing of what stands in it."""
    device = read(health="draining<script>")
    assert (device.device_type, device.host, device.health) == ("t4", "h", "quarantined")
    assert device.lease is not None and device.lease.job == "j" and device.present(TTL_S)
    assert "(health: Input should be 'ok' or 'quarantined')" in device.reason
    assert "script" not in device.reason and "with the leader's version" in device.reason


@pytest.mark.parametrize("field", ["device_type", "name", "host", "age_s"])
def test_without_what_each_device_has_it_is_an_unknown_one(field: str) -> None:
    """Nobody's, and gone, so that no scheduler takes it for one of some host's devices."""
    device = read(**{field: None})
    assert f"({field}: " in device.reason and device.health == "quarantined" and device.device_id == "d"
    assert device.lease is None and not device.present(TTL_S)


def test_a_lease_that_can_t_be_read_is_none() -> None:
    """With the field in it that is wrong; of many wrong fields not all are told."""
    device = read(lease={**LEASE, "state": "paused"}, cores="all", memory_bytes="much")
    assert device.lease is None and "lease.state: " in device.reason and "cores: " in device.reason
    assert len(read(lease={"job": 1}, cores="all", capabilities=3, versions={"x": 1}).reason) < 600
