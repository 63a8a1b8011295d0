"""How long what stands on the hosts of replicas is waited for, and waits."""

from __future__ import annotations

from inferbench_tasks.cluster.store import TTL_S
from inferbench_tasks.stages.senders.far_watch import PATIENCE_S
from inferbench_tasks.stages.spread import balance
from inferbench_tasks.stages.spread.replica import patience_s


def test_the_first_of_many_waits_until_the_last_could_start() -> None:
    """Each of those after it may take as long as one load may; the load's own wait for quiet comes once."""
    waits_s = [patience_s(number, 8, 60.0) for number in range(2, 9)]
    assert waits_s == [PATIENCE_S * left + 60.0 for left in range(7, 0, -1)]


def test_a_host_that_is_gone_has_lost_its_lease_before_nobody_asks_it_any_more() -> None:
    """A failure that said why would keep the job from being run again."""
    assert balance.REACHED_S > TTL_S + 2 * balance._POLL_S
