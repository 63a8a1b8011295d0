"""How nearly n senders send n times what one does, each on a core of its own, to a server that does nothing.

    .venv/bin/python -m benchmarks.load.senders [--senders 1 2 4] [--protocols http grpc] [--rounds 5] [--seconds 2]

One load of n shards is cut into n parts, as client hosts cut it (``load.client_hosts``, ``sender_hosts.part_of``), and
all parts begin at one instant. Each part has a null server of its own, so that nothing is shared but the machine: its
memory, its cores' clock, the kernel's network.

Every number of senders is measured once in each round, in turns forwards and backwards; what they sent together is
divided by n times what one sent in the same round. The median over the rounds must be at least 0.95. That is judged
only where each sender and each server has a physical core of its own, and of rounds in which these were kept off their
cores for at most 2% of the time, by others or by the hypervisor; what is not judged is measured, shown, and said not to
be.

Exit code 0: all were judged and passed; 1: one failed; 2: none failed, and at least one was not judged.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.load.parts import Sent, on_core, send
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.cores import granted
from inferbench_tasks.loadgen.null_server import null_server
from inferbench_tasks.monitors.environment import siblings

#: The least of linear, and the most that senders and servers may be kept off their cores, of the time.
LEAST_RATIO, MOST_KEPT_OFF = 0.95, 0.02
#: Rounds that a median is taken of.
LEAST_ROUNDS = 3

Round = dict[int, Sent]


def own_cores(allowed: Sequence[int], groups: Sequence[Sequence[int]]) -> list[int]:
    """One logical core of each physical one: two of one share what a sender needs. ``groups``: who share one."""
    first = {core: min(group) for group in groups for core in group}
    taken: dict[int, int] = {}
    for core in sorted(allowed):
        taken.setdefault(first.get(core, core), core)
    return sorted(taken.values())


def ratios(rounds: Sequence[Round], senders: int) -> list[float]:
    """Of linear, within each round."""
    return [each[senders].sum_rps / (senders * each[1].sum_rps) for each in rounds]


def verdict(rounds: Sequence[Round], senders: int, cores: int) -> str:
    """pass, FAIL, or why it is not judged. ``cores``: physical ones that may be used."""
    if cores < 2 * senders:
        return f"not judged: {senders} senders and their servers need {2 * senders} cores, there are {cores}"
    if any(sent.kept_off is None for each in rounds for sent in each.values()):
        return "not judged: this kernel does not tell how long a process waits for its core, or what was taken of that"
    calm = [each for each in rounds if _calm(each[1]) and _calm(each[senders])]
    if len(calm) < LEAST_ROUNDS:
        return (
            f"not judged: senders and servers were kept off their cores for at most {MOST_KEPT_OFF:.0%} of the time in "
            f"{len(calm)} of {len(rounds)} rounds, {LEAST_ROUNDS} are needed"
        )
    return "pass" if statistics.median(ratios(calm, senders)) >= LEAST_RATIO else "FAIL"


def _calm(sent: Sent) -> bool:
    return sent.kept_off is not None and sent.kept_off <= MOST_KEPT_OFF


class Bench:
    """The servers of one protocol, each on the second core of its pair."""

    def __init__(self, stack: ExitStack, protocol: str, most: int, cores: Sequence[int]) -> None:
        # Where they don't suffice some have two; what is measured then is not judged.
        self.pairs = [(cores[2 * k % len(cores)], cores[(2 * k + 1) % len(cores)]) for k in range(most)]
        self._servers: list[Endpoint] = []
        for _, core in self.pairs:
            with on_core(core):
                self._servers.append(stack.enter_context(null_server(protocol)))

    def measure(self, senders: int, seconds: float) -> Sent:
        """One load by so many."""
        with tempfile.TemporaryDirectory(prefix="inferbench-senders-") as folder:
            return send(Path(folder), self._servers[:senders], self.pairs[:senders], seconds)


def measured(
    protocol: str, numbers: Sequence[int], rounds: int, seconds: float, cores: Sequence[int]
) -> list[Round]:
    """The rounds of a protocol."""
    with ExitStack() as stack:
        bench = Bench(stack, protocol, max(numbers), cores)
        done: list[Round] = []
        for index in range(rounds):
            done.append({n: bench.measure(n, seconds) for n in numbers[:: 1 if index % 2 == 0 else -1]})
            print(f"{protocol}: round {index + 1} of {rounds}", file=sys.stderr)
        return done


def main() -> int:
    """Measure and print; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--senders", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--protocols", nargs="+", choices=("http", "grpc"), default=["http", "grpc"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    numbers, allowed = sorted({1, *options.senders}), granted()
    cores = own_cores(allowed, siblings())
    used = set(cores[: 2 * max(numbers)])
    # What watches keeps off them, where there is any other.
    os.sched_setaffinity(0, set(os.sched_getaffinity(0)) - used or used)
    words = []
    print(
        f"{len(cores)} physical core(s), each sender and each server on one of its own where there are enough\n"
    )
    print(f"{'':<10}{'requests/s together, by round':<52}{'kept off':>10}{'of linear':>11}  verdict")
    for protocol in options.protocols:
        rounds = measured(protocol, numbers, options.rounds, options.seconds, cores)
        for senders in numbers:
            each = [one[senders] for one in rounds]
            values = " ".join(f"{one.sum_rps:,.0f}" for one in each)
            waits = [one.kept_off for one in each if one.kept_off is not None]
            kept_off = f"{statistics.median(waits):.1%}" if waits else "-"
            line = f"{protocol + ' x' + str(senders):<10}{values:<52}{kept_off:>10}"
            if senders == 1:
                print(line)
                continue
            words.append(verdict(rounds, senders, len(cores)))
            print(f"{line}{statistics.median(ratios(rounds, senders)):>10.2f}x  {words[-1]}")
    return 1 if "FAIL" in words else 0 if set(words) == {"pass"} else 2


if __name__ == "__main__":
    sys.exit(main())
