"""How ``inferbench bricks predict`` is to time bricks, and to make predictions of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferbench_tasks.bricks.measure.method import Method


@dataclass(frozen=True)
class Wish:
    """See the options of ``bricks predict``. ``device``: "" is this machine; ``cores``: that may be used on another,
    None: as many as its server was measured with; ``cut``: arguments of ``asked_to_cut``."""

    device: str
    cores: int | None
    again: bool
    calibrate_on: int
    constructor: str
    method: Method
    cut: Mapping[str, Any]
