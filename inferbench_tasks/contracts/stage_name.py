"""What the stages of a job are called that a pipeline has once and a job several times."""

from __future__ import annotations


def numbered(name: str, number: int) -> str:
    """The name of one of several, from 1: ``standby``, ``standby_2``, ``standby_3``."""
    return name if number == 1 else f"{name}_{number}"
