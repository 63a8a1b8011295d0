"""What a worker tells of its host again and again: how its clock stands, what its cache takes.

Workers of one host share its document: who finds that another has measured within the interval leaves it at that.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime

from inferbench_tasks.cluster import clock, token_end
from inferbench_tasks.cluster.host import CacheUse, Facts
from inferbench_tasks.cluster.hosts import Hosts
from inferbench_tasks.cluster.versions import own

log = logging.getLogger(__name__)

#: A quartz drifts by some 20 us/s: within this time by little more than the error of a measurement.
EVERY_S = 60.0


class HostReport:
    """Of one host. ``cache_use`` looks at its cache; ``token_ends``: of the token by which it joined, if it did."""

    def __init__(
        self,
        hosts: Hosts,
        home: str,
        facts: Facts,
        cache_use: Callable[[], CacheUse],
        token_ends: datetime | None = None,
    ) -> None:
        self.hosts = hosts
        self.home = home
        self.facts = facts
        self.cache_use = cache_use
        self.clock_fault = ""
        """Why no job can be given by this host's clock, or ""."""
        self._token_ends = token_ends
        self._clock_at = self._cache_at = 0.0
        self._warned_at = -math.inf
        self._clock_off = False

    def enter(self) -> None:
        """At the start of the worker, before it is given a job."""
        self.hosts.enter(self.home, own(), self.facts, self._token_ends)
        self._tell_clock()

    def tell(self, *, idle: bool) -> None:
        """To be called often. ``idle``: the device has no job, so that files may be counted."""
        now = time.monotonic()
        self._warn_of_token(now)
        if now >= self._clock_at:
            self._clock_at = now + EVERY_S
            if self.hosts.get(self.home) is None:  # somebody removed it
                self.enter()
            else:
                self._tell_clock()
        if idle and now >= self._cache_at:
            self._cache_at = now + EVERY_S
            self.hosts.tell_cache(self.home, self.cache_use())

    def _warn_of_token(self, now_s: float) -> None:
        """Once a day in the log, from the week before it ends on."""
        if self._token_ends is None or now_s - self._warned_at < token_end.DAY_S:
            return
        if said := token_end.warning((self._token_ends - datetime.now(UTC)).total_seconds()):
            self._warned_at = now_s
            log.warning("%s", said)

    def _tell_clock(self) -> None:
        """Measure, unless another worker of this host just did; what was measured last says whether it is fit."""
        host = self.hosts.get(self.home)
        offset = host.clock if host else None
        if host is None or host.clock_age_s is None or host.clock_age_s >= EVERY_S / 2:
            measured = clock.measured(self.hosts.db)
            if measured is not None:
                self.hosts.tell_clock(self.home, measured)
                offset = measured
        self.clock_fault = clock.fault(offset.ahead_s) if offset else ""
        off = bool(offset and clock.warning(offset.ahead_s))
        if offset and off and not self._clock_off:
            log.warning("%s", clock.warning(offset.ahead_s))
        self._clock_off = off
