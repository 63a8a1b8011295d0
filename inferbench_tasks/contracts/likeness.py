"""What a job may ask of a device by comparison: that something there is as it was where the job was made ready.

Such an ability has the name of what it is of, and says how that has to be. Workers tell, under that name, how it is on
their host.
"""

from __future__ import annotations

from collections.abc import Mapping

_IS = " is "


def likeness(of: str, wanted: str) -> str:
    """The ability: that ``of``, a name without " is ", is so."""
    return f"{of}{_IS}{wanted}"


def instead(ability: str, tells: Mapping[str, object]) -> str:
    """How it is there instead, by what its worker tells; "" where it is so, where nothing is told of it, and for an
    ability of another form."""
    of, is_, wanted = ability.partition(_IS)
    told = tells.get(of) if is_ else None
    return "" if told is None or told == wanted else str(told)
