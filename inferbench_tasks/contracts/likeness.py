"""What a job may ask of a device by comparison: that something there is as it was where the job was made ready.

Such an ability has the name of what it is of, and says how that has to be. Workers tell, under that name, how it is on
their host.
"""

from __future__ import annotations

from collections.abc import Mapping

_IS = " is "
#: So much of it is shown.
_MOST = 300


def likeness(of: str, wanted: str) -> str:
    """The ability: that ``of``, a name without " is ", is so."""
    return f"{of}{_IS}{wanted}"


def instead(ability: str, tells: object) -> str:
    """How it is there instead, by what its worker tells; "" where it is so, where nothing is told of it, and for an
    ability of another form. What a worker writes may be anything."""
    of, is_, wanted = ability.partition(_IS)
    told = tells.get(of) if is_ and isinstance(tells, Mapping) else None
    return "" if told is None or told == wanted else str(told)[:_MOST]
