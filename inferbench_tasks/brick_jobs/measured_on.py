"""Which hosts times are of: those that the times say, with what each host told of itself beside its shards."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class MeasuredOn:
    """``environment``: of several hosts a list, ``hosts``; {} where nobody told it, as of times that another host
    measured for another run. ``versions``, ``git``: of what ran there (``monitors.environment``); empty of several
    hosts, and where nobody told them."""

    environment: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str | None] = field(default_factory=dict)
    git: tuple[str | None, bool | None] = (None, None)


def measured_on(
    shards: Sequence[Mapping[str, Any]], homes: Collection[str], here: str, own: MeasuredOn
) -> MeasuredOn:
    """Of times of these ``homes``; "" is that of this host, ``here`` (``settings.home_id``), of which all is known.

    ``shards``: what this run's measurements told; a host of whose times none is of these told nothing, and of several
    hosts, of which one is such, nothing is said.
    """
    told = {out["home"]: _told(out) for out in shards if out.get("home")}
    told[here] = own
    each = [told.get(home) for home in sorted({home or here for home in homes})]
    known = [one for one in each if one is not None]
    if not known or len(known) < len(each):
        return MeasuredOn()
    if len(known) == 1:
        return known[0]
    return MeasuredOn({"hosts": [one.environment for one in known]})


def _told(out: Mapping[str, Any]) -> MeasuredOn:
    sha, dirty = out.get("git") or (None, None)
    return MeasuredOn(out.get("environment") or {}, out.get("versions") or {}, (sha, dirty))


def this_host() -> MeasuredOn:
    """What this host tells of itself."""
    from inferbench_tasks.monitors import environment

    of = {"hardware": environment.hardware(), "system": environment.system()}
    return MeasuredOn(of, environment.versions(), environment.git_state())
