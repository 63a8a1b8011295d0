"""A load that hosts of a test share (``tests.two_hosts``): its submission, and all that comes before it begins."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.contracts.sending_hosts import ORDINALS
from inferbench_tasks.contracts.stage_name import numbered
from tests.two_hosts import Hosts

_YAML = """
name: %s
model: {kind: zoo, name: digits}
load:
  arrivals: %s
  duration_s: %s
  warmup_s: 1
  wait_for_quiet_s: 0
  from: other_host
  client_hosts: %d
"""
#: What the sender of a busy machine may fail at is left out; what was sent, and recorded, has to be right.
SOUND = {
    "empty", "repeated_records", "backward_records", "impossible_records", "errors", "senders", "owners",
    "unrecorded", "schedule_moved", "sent_early", "mislabelled_records",
}  # fmt: skip


def yaml(
    name: str,
    arrivals: str = "{kind: poisson, rate_rps: 40}",
    duration_s: float = 7.0,
    client_hosts: int = 2,
) -> str:
    return _YAML % (name, arrivals, duration_s, client_hosts)


def prepared(hosts: Hosts, name: str, text: str, further: int = 1) -> None:
    """Up to the stages that wait on the client hosts beside the first one, which are called ``second``, ``third``..."""
    names = ORDINALS[:further]
    hosts.run("client", name, text, "generate", "convert")
    hosts.lease(name, "server.cpu", "client.cpu", *(f"{host}.cpu" for host in names))
    hosts.run("server", name, text, "serve")
    for number, host in enumerate(names, 1):
        hosts.run(host, name, text, numbered("standby", number))


def secrets_of(hosts: Hosts, further: int = 1) -> list[Any]:
    """Those of the run, which nothing is to keep."""
    served = hosts.outputs["job-000.serve"]
    waiting = [hosts.outputs[f"job-000.{numbered('standby', n)}"] for n in range(1, further + 1)]
    watches = [*served["far_further"], served["far"], *(one["reached"] for one in waiting)]
    return [served["endpoint"]["secret"], *(watch["secret"] for watch in watches)]
