"""``serve.balancer``: what stands before several replicas, and ``serve.spread``: whose hosts these are."""

from __future__ import annotations

from typing import Literal

from inferbench_tasks.contracts.spec import Spec

#: Where the devices of replicas are.
Spread = Literal["one_host", "own_hosts"]


class BalancerSpec(Spec):
    """What stands before the replicas and hands each request to one of them."""

    kind: Literal["nginx"] = "nginx"
    """The program, which has to be installed on the device's host."""
    policy: Literal["least_conn", "round_robin"] = "least_conn"
    """To which replica a request goes: that with the fewest under way, or each in its turn."""
