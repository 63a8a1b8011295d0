"""Which hosts times are of: those that the times say, with what each host told of itself beside its shards."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.brick_jobs.places import Place


@dataclass(frozen=True)
class MeasuredOn:
    """``environment``: of several hosts a list, ``hosts``; {} where nobody told it, as of times that another host
    measured for another run. ``versions``, ``git``: of what ran there (``monitors.environment``); empty of several
    hosts, and where nobody told them."""

    environment: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str | None] = field(default_factory=dict)
    git: tuple[str | None, bool | None] = (None, None)


def measured_on(
    shards: Sequence[Mapping[str, Any]], homes: Collection[str], here: Place, own: MeasuredOn
) -> MeasuredOn:
    """Of times of these ``homes``; of this host, ``here``, all is known, and of another data directory of its machine
    the machine.

    ``shards``: what this run's measurements told; a host of whose times none is of these told nothing, and of several
    hosts, of which one is such, or is not known (""), nothing is said.
    """
    told = {out["home"]: _told(out) for out in shards if out.get("home")}
    told[here.home] = own
    mine = [told.get(home) or MeasuredOn(own.environment) for home in sorted(homes) if here.owns(home)]
    others = [told.get(home) for home in sorted(homes) if not here.owns(home)]
    known = [*_of_one_machine(mine), *(one for one in others if one is not None)]
    if not known or None in others:
        return MeasuredOn()
    return known[0] if len(known) == 1 else MeasuredOn({"hosts": [one.environment for one in known]})


def _of_one_machine(each: list[MeasuredOn]) -> list[MeasuredOn]:
    """What data directories of one machine tell, as one where they tell the same of it: what ran there may differ."""
    if len(each) < 2 or any(one.environment != each[0].environment for one in each):
        return each
    return each[:1] if all(one == each[0] for one in each) else [MeasuredOn(each[0].environment)]


def _told(out: Mapping[str, Any]) -> MeasuredOn:
    sha, dirty = out.get("git") or (None, None)
    return MeasuredOn(out.get("environment") or {}, out.get("versions") or {}, (sha, dirty))


def this_host() -> MeasuredOn:
    """What this host tells of itself."""
    from inferbench_tasks.monitors import environment

    of = {"hardware": environment.hardware(), "system": environment.system()}
    return MeasuredOn(of, environment.versions(), environment.git_state())
