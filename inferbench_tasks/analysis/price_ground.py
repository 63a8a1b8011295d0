"""At which price a cost is: of two price lists costs are of unlike things, whichever server is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.dotted import value_at

#: Where below a summary the instances stand, the cheapest first, by whose rate its cost is.
_INSTANCES = "cost.instances"
_PLACE, _RATE = ("provider", "instance", "region"), "usd_per_hour"
#: Where a balancer's cores were paid for as far as it used them: the rate without these.
_OF_DEVICES = "usd_per_hour_of_devices"
#: Where below a summary stands what ``rate`` and ``priced_at`` read.
RATE_PATHS = tuple(f"{_INSTANCES}.{name}" for name in (*_PLACE, _RATE, _OF_DEVICES))
DATE_PATH = f"{_INSTANCES}.date"


def rate(summary: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Which instance a summary's cost is of and its USD/h: equal where two runs of one configuration are priced alike;
    None without a cost."""
    if not (instances := value_at(summary, _INSTANCES)):
        return None
    first = instances[0]
    return *(first.get(name) for name in _PLACE), first.get(_OF_DEVICES, first.get(_RATE))


def priced_at(summary: Mapping[str, Any]) -> str | None:
    """The date of the rate that a summary's cost is of; None without a cost, or where nobody kept it."""
    instances = value_at(summary, _INSTANCES)
    return str(instances[0]["date"]) if instances and instances[0].get("date") else None


def dates_note(dates: Sequence[str | None]) -> str | None:
    """What to say of costs that stand side by side; None where all that are known are of one date."""
    several = sorted({date for date in dates if date})
    if len(several) < 2:
        return None
    return (
        f"Their costs are by hourly rates of different dates ({'; '.join(several)}): a difference may be the price "
        "list's, and not the servers'."
    )
