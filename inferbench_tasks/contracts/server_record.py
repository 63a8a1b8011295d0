"""What is written down about a server before it is started, so that it can always be ended."""

from __future__ import annotations

import os

from pydantic import BaseModel, ConfigDict, Field

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import ServerHandle


class ServerRecord(BaseModel):
    """A started server and the run that it belongs to; ``token`` is in its environment.

    Written before the start, with ``server`` None, so that no moment is left in which a server could be lost.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    token: str
    launcher: str
    server: ServerHandle | None = None
    worker: str = Field(default_factory=lambda: os.environ.get(settings.WORKER, ""))
    """The device that it was started on, where a scheduler leases devices."""
    devices: tuple[str, ...] = Field(
        default_factory=lambda: tuple(filter(None, os.environ.get(settings.DEVICES, "").split(",")))
    )
    """All devices that it runs on, where its job holds several."""
    leftovers: tuple[str, ...] = ()
    uid: int | None = None
    """The user that it has for itself, see ``sandbox.account``."""
