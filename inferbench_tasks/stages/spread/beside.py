"""What stands beside a replica on a host of its own: it watches there, and answers the load's host.

Stage ``replica`` starts it as a process of the run, so that whatever ends the run's servers ends it too. It is the
watch of a load from another host (``senders.far_watch``), which also tells that the server has ended, and hands its
recording over: figures are made on the load's host.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks.launchers.base import LAUNCHERS
from inferbench_tasks.networks.links import wire
from inferbench_tasks.stages.senders import far_watch, listener
from inferbench_tasks.stages.senders.far_watch import FarWatch, Order, Watching

if TYPE_CHECKING:
    from inferbench_tasks.networks.links.far_side import FarSide

log = logging.getLogger(__name__)

#: What the recording comes in, and how much of a reason fits into an answer (``wire``).
PIECE_BYTES, _MOST_BYTES = 1 << 19, 3_000
#: The name of the process, of its log and its order.
_NAME = "replica-watch"


def start(run_id: str, folder: Path, servers_dir: Path, order: Order) -> FarWatch:
    """Start it, registered as a process of the run; ServerError where it does not say where it listens."""
    invitation = listener.start(
        __name__, _NAME, run_id, folder, servers_dir, order.model_dump_json(), Path(order.told_path)
    )
    return FarWatch.of(invitation, order.recording_path)


class ReplicaWatch(Watching):
    """The monitors of the replica's host while the load lasts, and whether its server lives."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._server = order.server
        self._launcher = LAUNCHERS.load(order.server.launcher)()
        self._recording = Path(order.recording_path)

    def state(self) -> str:
        """ "": all is well; else what became of the server, with the end of its log."""
        # One that took too much was ended for that: so it is asked for first.
        if (excess := super().state()) or self._launcher.alive(self._server):
            return excess
        said = (
            f"its server {self._launcher.exit_text(self._server)} while the load lasted. The end of "
            f"{self._server.log_path}:\n{self._launcher.log_end(self._server)}"
        )
        return said.encode()[:_MOST_BYTES].decode(errors="ignore")

    def piece(self, words: str) -> bytes:
        """So many bytes of the recording, from the one on that is asked for; none behind its end."""
        with open(self._recording, "rb") as file:
            file.seek(int(words))
            return file.read(PIECE_BYTES)


def serve(order: Order, far: FarSide) -> None:
    """Answer the load's host until it is done, or gone."""
    watching = ReplicaWatch(order)
    try:
        far.invitation.write(Path(order.told_path))
        orders = {wire.BEGIN: watching.begin, wire.STATE: watching.state, wire.END: watching.end}
        peer = far.serve(order.patience_s, orders, answering=watching.piece)
        log.info("done peer=%s", peer)
    finally:
        watching.close()


def main(path: Path) -> None:
    """The process."""
    from inferbench_tasks.networks.links.far_side import FarSide

    order = far_watch.Order.model_validate(json.loads(path.read_text()))
    with FarSide(order.address, 0, order.host, order.home) as far:
        serve(order, far)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    main(Path(sys.argv[1]))
