"""What jobs may ask of a host and this one can't do: workers tell it with their devices (``Device.lacks``)."""

from __future__ import annotations

from inferbench_tasks.backends import nginx_balancer
from inferbench_tasks.contracts.replicas import balancing

#: What a balancer can stand before.
_PROTOCOLS = ("http", "grpc")


def host_lacks() -> dict[str, str]:
    """By the name of each such ability why it is not here, with the remedy; looked for on this machine now."""
    reasons = {balancing(protocol): nginx_balancer.unavailable(protocol) for protocol in _PROTOCOLS}
    return {ability: reason for ability, reason in reasons.items() if reason}
