"""Hosts that share a load: how many there may be, what each is called, and where a result has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Those beside the first one in their order, as results, files and sentences call them.
ORDINALS = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
MOST = 1 + len(ORDINALS)


def all_of(host: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of what a result has of a load's host (``client_host``): that one, then those that shared the load with it."""
    return [host, *(host[name] for name in ORDINALS if host.get(name))]
