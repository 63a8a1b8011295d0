"""What the rounds of chaos over hosts submit."""

from __future__ import annotations

from dataclasses import dataclass

from tests import nginx

RATE_RPS, SECONDS = 30, 6
_LOAD = f"arrivals: {{kind: constant, rate_rps: {RATE_RPS}}}, duration_s: {SECONDS}, warmup_s: 0.5, wait_for_quiet_s: 0"


@dataclass(frozen=True)
class Work:
    """What is submitted: its YAML but for the name, how many jobs it has, how many hosts it needs."""

    text: str
    jobs: int = 1
    hosts: int = 1


WORK = {
    "sweep": Work(
        f"model: {{kind: zoo, name: digits}}\nload: {{{_LOAD}}}\nsweep: {{serve.threads: [1, 2]}}\n", jobs=2
    ),
    "away": Work(f"model: {{kind: zoo, name: digits}}\nload: {{{_LOAD}, from: other_host}}\n", hosts=2),
    "clients": Work(
        f"model: {{kind: zoo, name: digits}}\nload: {{{_LOAD}, from: other_host, client_hosts: 2}}\n", hosts=3
    ),
    "replicas": Work(
        f"model: {{kind: zoo, name: digits}}\nserve: {{devices: 2, spread: own_hosts}}\nload: {{{_LOAD}}}\n",
        hosts=2,
    ),
    "training": Work(
        "kind: training\ndata: {kind: digits, samples: 480}\ntrain: {batch_size: 16, warmup_steps: 4, rounds: 8}\n"
        "devices: {count: 2, hosts: 2, strategy: ddp}\n",
        hosts=2,
    ),
}


def possible(hosts: int) -> list[str]:
    """The kinds of work that so many hosts, and what is installed here, allow; what is left out is said."""
    names = [name for name, work in WORK.items() if work.hosts <= hosts]
    if "replicas" in names and (reason := nginx.missing(lua=False)):
        print(f"replicas: left out, {reason}")
        names.remove("replicas")
    for name in WORK.keys() - {"replicas"} - set(names):
        print(f"{name}: left out, it needs {WORK[name].hosts} hosts (--hosts)")
    return names


def dag(at: int) -> str:
    """The name of a round's submission."""
    return f"round-{at:03d}"


def quiet(work: str) -> str:
    """The name of the submission that is done without a fault."""
    return f"quiet-{work}"
