"""What is refused of a load from another host and of replicas on hosts of their own is refused in the same words."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from tests.unit.submission.test_check import spec

AWAY: dict[str, Any] = {"from": "other_host"}
APART: dict[str, Any] = {"devices": 2, "spread": "own_hosts"}


def reason(load: dict[str, Any], more: dict[str, Any], other: str) -> str:
    """Of the one finding that names a field beside that of the hosts, without the way out."""
    hosts = ("load.from", "serve.spread", "serve.devices")
    (found,) = (
        finding
        for finding in INSTALLED.findings(spec(load, **more))
        if finding.fields[0] in hosts and finding.fields[1] == other
    )
    why, _, remedy = found.message.rpartition(", or ")
    assert remedy in ("from: server_host", "spread: one_host", "devices: 1")
    return why


@pytest.mark.parametrize(
    ("load", "more", "other"),
    [
        ({"client": "reference"}, {}, "load.client"),
        ({"engine": "mlperf_loadgen"}, {}, "load.engine"),
        ({"network": "wifi"}, {}, "load.network"),
        ({"arrivals": {"kind": "max_rate"}}, {}, "load.arrivals"),
        ({}, {"evaluate": {}}, "evaluate"),
    ],
)
def test_both_say_it_alike(load: dict[str, Any], more: dict[str, Any], other: str) -> None:
    """But for the field that it can't go with, and the remedy."""
    assert reason({**load, **AWAY}, more, other) == reason(load, {**more, "serve": APART}, other)
