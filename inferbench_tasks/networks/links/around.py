"""The link to a server's host before and after its load, over one connection that stands meanwhile."""

from __future__ import annotations

import socket

from inferbench_tasks.contracts.link import LinkAround, LinkEnd
from inferbench_tasks.errors import InputError, LoadError
from inferbench_tasks.networks.links.invitation import Invitation
from inferbench_tasks.networks.links.measure import Measurement, measure
from inferbench_tasks.networks.links.near_side import NearSide
from inferbench_tasks.timing.two_clocks import drift_ppm

#: A median that moved by more than both of these is worth a word.
_MOVED_MS, _MOVED_RATIO = 0.2, 0.25


class AroundLoad:
    """Measures when it is made, and when it is ``ended``; nothing passes the link for it in between."""

    def __init__(self, near: NearSide, me: LinkEnd) -> None:
        self._near, self._me = near, me
        self.before: Measurement = measure(near, me)

    def ended(self) -> LinkAround:
        """Both measurements; where the link was lost meanwhile the first, with the reason why there is no second."""
        first = self.before
        try:
            second = measure(self._near, self._me)
        except LoadError as error:
            return LinkAround(before=first.link, after=None, reason=str(error))
        return LinkAround(
            before=first.link, after=second.link, drift_ppm=drift_ppm(first.exchanges, second.exchanges)
        )


def warnings(link: LinkAround, of: str = "load", figures: str = "latencies") -> list[str]:
    """What a load's figures, or those ``of`` something else, should be read with: a link that was lost, or was another
    at the end.
    """
    if link.after is None:
        return [f"the link was measured before the {of} only: {link.reason}"]
    first, last = link.before.round_trip.p50_ms, link.after.round_trip.p50_ms
    if first is None or last is None:
        return []
    moved = abs(last - first)
    if moved <= max(_MOVED_MS, _MOVED_RATIO * min(first, last)):
        return []
    return [
        f"the link's round trip was another after the {of}: {last:.3f} ms in the median, {first:.3f} ms before; part "
        f"of what the {figures} did may be the network's"
    ]


def require_same_host(invitation: Invitation, server: str) -> None:
    """InputError where the link's address is none of the server's: it would be another network that is measured."""
    try:
        addresses = sorted({str(entry[4][0]) for entry in socket.getaddrinfo(server, None)})
    except OSError as error:
        raise InputError(f"--url: {server!r} has no address: {error.strerror}") from error
    if invitation.address not in addresses:
        raise InputError(
            f"--link measures the way to {invitation.address}, and the load goes to {server} ({', '.join(addresses)}): "
            "listen on the address that the load goes to."
        )
