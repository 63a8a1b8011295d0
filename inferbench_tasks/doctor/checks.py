"""All checks, in the order in which they are shown."""

from __future__ import annotations

from inferbench_tasks.doctor import logins, modes, ports, programs, secrets
from inferbench_tasks.doctor.base import Advice, Check, Installation

CHECKS: tuple[Check, ...] = (
    modes.modes,
    ports.ports,
    logins.perfdb,
    logins.broker,
    logins.api,
    logins.passwords,
    secrets.secrets,
    programs.sandbox,
    programs.programs,
)


def examine(place: Installation) -> list[Advice]:
    """What every check says of an installation; it starts and changes nothing."""
    return [advice for check in CHECKS for advice in check(place)]
