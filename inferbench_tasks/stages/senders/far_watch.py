"""What stands beside a server whose load comes from another host: it watches here, and answers the load's host.

``serve`` starts it, on the server's host, as a process of the run, so that whatever ends the run's servers ends it too.
The load's host knows it by a secret of its own: round trips, clocks, and the orders to begin and to end watching.
"""

from __future__ import annotations

import json
import logging
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from inferbench_tasks.contracts.handles import Handle, ServerHandle
from inferbench_tasks.networks.links import wire
from inferbench_tasks.networks.links.invitation import Invitation
from inferbench_tasks.stages.senders import listener

if TYPE_CHECKING:
    from inferbench_tasks.networks.links.far_side import FarSide

log = logging.getLogger(__name__)

#: How long a load may let wait for it, beside what it may wait for a quiet machine.
PATIENCE_S = 900.0
#: The raw recording, on the clock of the server's host.
FAR_FILE = "far-monitors.parquet"


class FarWatch(Handle):
    """Where it listens, by what it is known, and where its recording lies on the server's host."""

    address: str
    port: int
    secret: str = Field(repr=False)
    recording_path: str

    @classmethod
    def of(cls, invitation: Invitation, recording_path: str) -> FarWatch:
        """For who is to connect."""
        return cls(
            address=invitation.address,
            port=invitation.port,
            secret=invitation.secret.hex(),
            recording_path=recording_path,
        )

    @property
    def invitation(self) -> Invitation:
        """As the other host connects by."""
        return Invitation(self.address, self.port, bytes.fromhex(self.secret))


class Order(Handle):
    """What the process is told."""

    address: str
    host: str
    home: str
    server: ServerHandle
    device: str
    recording_path: str
    told_path: str
    #: Of the server's own metrics, on its host; None where it has none on a port of theirs.
    metrics_url: str | None = None
    patience_s: float = PATIENCE_S
    #: Whether it watches its host, as one of several does; the others tell their host of the link alone.
    watches: bool = True


def start(run_id: str, folder: Path, servers_dir: Path, order: Order) -> FarWatch:
    """Start it, registered as a process of the run; ServerError where it does not say where it listens."""
    told = Path(order.told_path)
    invitation = listener.start(
        __name__, told.stem, run_id, folder, servers_dir, order.model_dump_json(), told
    )
    return FarWatch.of(invitation, order.recording_path)


class Watching:
    """The monitors of the server's host while the load lasts, and whether the server became too large."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._stack = ExitStack()
        self._excess: object | None = None

    def begin(self) -> str:
        """ "": they watch; else why not."""
        from inferbench_tasks.monitors.session import MonitorSession
        from inferbench_tasks.sandbox import Watch, watched

        server, path = self._order.server, Path(self._order.recording_path)
        try:
            session = MonitorSession(
                server, path, device=self._order.device, metrics_url=self._order.metrics_url, side="server"
            )
            self._stack.enter_context(session)
            watch = [("The server", Watch(server.pid, server.uid))]
            self._excess = self._stack.enter_context(watched(watch))
        except Exception as error:  # noqa: BLE001 - the load's host is told whatever it was
            self.close()
            return f"{type(error).__name__}: {error}"
        return ""

    def state(self) -> str:
        """ "": all is well; else what is wrong with the server."""
        return str(getattr(self._excess, "reason", None) or "")

    def end(self) -> str:
        """The recording is written; what was wrong with the server."""
        reason = self.state()
        self.close()
        return reason

    def close(self) -> None:
        """Whatever runs."""
        self._stack.close()


def serve(order: Order, far: FarSide) -> None:
    """Answer the load's host until it is done, or gone."""
    watching = Watching(order)
    try:
        far.invitation.write(Path(order.told_path))
        orders = {wire.BEGIN: watching.begin, wire.STATE: watching.state, wire.END: watching.end}
        peer = far.serve(order.patience_s, orders if order.watches else {})
        log.info("done peer=%s", peer)
    finally:
        watching.close()


def main(path: Path) -> None:
    """The process."""
    from inferbench_tasks.networks.links.far_side import FarSide

    order = Order.model_validate(json.loads(path.read_text()))
    with FarSide(order.address, 0, order.host, order.home) as far:
        serve(order, far)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    main(Path(sys.argv[1]))
