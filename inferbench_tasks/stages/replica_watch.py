"""Part of ``load``: whether all replicas and their balancer live as long as the load, and which of them answered."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks.backends.probes.base import Refused, open_probe
from inferbench_tasks.contracts.replicas import Balancer, Replica
from inferbench_tasks.errors import LoadError
from inferbench_tasks.launchers.base import LAUNCHERS

if TYPE_CHECKING:
    from inferbench_tasks.loadgen.certificate import Certificate
    from inferbench_tasks.loadgen.evidence import Check

#: How often they are looked at, s.
EVERY_S = 0.25
#: Of fewer answers for each replica nobody expects that all of them had one.
LEAST_EACH = 10
#: From so much of a core that one of the balancer's processes used on, it is said that figures may be its own.
BUSY_RATIO = 0.8


class Life:
    """``reason``: which of them ended, with the end of its log; None while all are there."""

    def __init__(self, replicas: Sequence[Replica], balancer: Balancer | None) -> None:
        named = [(replica.name, replica.server) for replica in replicas]
        if balancer:
            named.append(("The balancer", balancer.server))
        self._watched = [(name, server, LAUNCHERS.load(server.launcher)()) for name, server in named]
        self.reason: str | None = None

    def look(self) -> None:
        """What is known stays."""
        for name, server, launcher in self._watched:
            if self.reason is None and not launcher.alive(server):
                how = launcher.exit_text(server)
                self.reason = (
                    f"{name} {how} while the load lasted, and what the others answer is another service. The end of "
                    f"{server.log_path}:\n{launcher.log_end(server)}"
                )


@contextmanager
def living(replicas: Sequence[Replica], balancer: Balancer | None) -> Iterator[Life]:
    """Look at them from a thread of this one, and once more at the end."""
    life, over = Life(replicas, balancer), threading.Event()

    def look() -> None:
        while life.reason is None and not over.wait(EVERY_S):
            life.look()

    thread = threading.Thread(target=look, name="replica-watch", daemon=True)
    if replicas:
        thread.start()
    try:
        yield life
    finally:
        over.set()
        if replicas:
            thread.join()
            life.look()


@dataclass(frozen=True)
class Counts:
    """The samples that each replica said to have answered, before a load."""

    replicas: tuple[Replica, ...]
    before: tuple[int, ...]

    @classmethod
    def begun(cls, replicas: Sequence[Replica]) -> Counts:
        """None are asked where there is one server."""
        return cls(tuple(replicas), tuple(map(_counted, replicas)))

    def since(self) -> tuple[int, ...]:
        """By replica, in their order. LoadError where one does not tell."""
        now = map(_counted, self.replicas)
        return tuple(after - before for after, before in zip(now, self.before, strict=True))


def _counted(replica: Replica) -> int:
    probe = open_probe(replica.endpoint)
    try:
        told = probe.statistics()
    except (OSError, Refused) as error:
        raise LoadError(f"{replica.name} does not tell how much it answered: {error}") from error
    finally:
        probe.close()
    if told is None:
        raise LoadError(f"{replica.name} does not tell how much it answered")
    return int(told["inference_count"])


def with_counts(judged: Certificate, counts: Sequence[int], samples_path: Path) -> Certificate:
    """The certificate with what the replicas counted, against the records of the load."""
    for check in checks_of(counts, *answered_in(samples_path)):
        judged = judged.and_check(check)
    return judged


def answered_in(samples_path: Path) -> tuple[int, int]:
    """The samples of good answers, and those of requests that had none."""
    from inferbench_tasks.loadgen.records import column, is_ok, read_samples

    table = read_samples(samples_path, ("status", "batch_size"))
    good, samples = is_ok(table), column(table, "batch_size")
    return int(samples[good].sum()), int(samples[~good].sum())


def checks_of(counts: Sequence[int], answered: int, failed: int) -> list[Check]:
    """Every answer was some replica's, and each replica has some. ``failed``: samples that had no good answer."""
    from inferbench_tasks.loadgen.evidence import Check

    listed = " + ".join(f"{count:,}" for count in counts)
    # What failed for the client a replica may have answered all the same; nothing else came to it.
    missing = max(answered - sum(counts), sum(counts) - answered - failed)
    checks = [
        Check.at_most(
            "replica_counts", missing, 0, "samples",
            f"the replicas counted {listed} = {sum(counts):,} samples, and {answered:,} were answered"
            + (f", {failed:,} more asked for" if failed else ""),
        )
    ]  # fmt: skip
    if answered >= LEAST_EACH * len(counts):
        idle = sum(count == 0 for count in counts)
        checks.append(
            Check.at_most(
                "replica_idle", idle, 0, "replicas",
                f"{idle} of {len(counts)} replicas answered nothing ({listed} samples): the load was not theirs",
            )
        )  # fmt: skip
    return checks


def remarks(balancer: Balancer | None, monitors_path: Path, start_ns: int, end_ns: int) -> list[str]:
    """What a reader of the figures should know of the balancer: whose cores it had, and whether it was full."""
    from inferbench_tasks.monitors.records import read_recording

    if balancer is None:
        return []
    told = []
    if not balancer.apart:
        told.append(
            "the balancer ran on the replicas' cores, for no other was free: what it used of them is in all figures "
            "(resources.balancer)"
        )
    # Of all its processes together it would be little where most connections are one's.
    series = read_recording(monitors_path).get("balancer", "busiest_s_total")
    used_s = series.increase(start_ns, end_ns) if series else None
    if used_s is None:
        return [*told, "what CPU the balancer used was not recorded over the whole of the window"]
    ratio = used_s / ((end_ns - start_ns) / 1e9)
    if ratio > BUSY_RATIO:
        told.append(
            f"the busiest of the balancer's {balancer.workers} process(es) used {ratio:.0%} of a core, and can't use "
            "more than one: throughput and latencies may be its own, not the replicas'"
        )
    return told
