"""The process on a further client host that sends its part of the load.

Stage ``standby`` starts it as a process of the run. Stage ``load``, on the first client host, knows it by a secret of
its own, and tells it when to begin; once that connection ends, however, nothing is sent any more. A host whose device
the job has lost waits no longer.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks.stages.lease_token import is_lost
from inferbench_tasks.stages.senders import listener
from inferbench_tasks.stages.senders.far_watch import FarWatch
from inferbench_tasks.stages.senders.led_part import LedPart, Order

if TYPE_CHECKING:
    from inferbench_tasks.networks.links.far_side import FarSide

log = logging.getLogger(__name__)

#: So often it looks whether the job still holds this host's device, until somebody connects.
_LOOK_S = 5.0


def start(run_id: str, folder: Path, servers_dir: Path, order: Order) -> FarWatch:
    """Start it, registered as a process of the run; ServerError where it does not say where it listens."""
    invitation = listener.start(
        __name__, "far-senders", run_id, folder, servers_dir, order.model_dump_json(), Path(order.told_path)
    )
    return FarWatch.of(invitation, "")


def serve(order: Order, far: FarSide) -> None:
    """Answer the first client host until it is done, or gone; nobody, once the job has lost this host's device."""
    far.invitation.write(Path(order.told_path))
    part = LedPart(order)
    deadline_s = time.monotonic() + order.patience_s
    peer = None
    try:
        while peer is None and time.monotonic() < deadline_s and not _lost(order):
            peer = far.serve(_LOOK_S, answering=part.answer)
        log.info("done peer=%s", peer)
    finally:
        part.end()
    if peer is not None:
        part.forget()


def _lost(order: Order) -> bool:
    """Whether the device of this host is another job's by now."""
    return is_lost(order.device_id, order.token, Path(order.data_dir))


def main(path: Path) -> None:
    """The process."""
    from inferbench_tasks.networks.links.far_side import FarSide

    order = Order.model_validate(json.loads(path.read_text()))
    path.unlink()  # the secrets of the run are in it
    try:
        with FarSide(order.address, 0, order.host, order.home) as far:
            serve(order, far)
    finally:
        listener.leave(Path(order.data_dir))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    main(Path(sys.argv[1]))
