"""What stands on the job's own host while the other one trains with it: the first ranks and their monitors.

Stage ``meet`` starts it as a process of the run. Stage ``train``, on the other host, knows it by a secret of its own
and tells it to begin; whoever of the two ends, or is gone, ends the other's ranks.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.networks.links import wire
from inferbench_tasks.stages.base import Context
from inferbench_tasks.training.hosts import on_host
from inferbench_tasks.training.hosts.meeting import Meeting, free_port
from inferbench_tasks.training.job import TrainingJob

if TYPE_CHECKING:
    from inferbench_tasks.networks.links.far_side import FarSide

log = logging.getLogger(__name__)

#: How long the other host may take to connect: its data has to come there first.
PATIENCE_S = 900.0
#: After the other host's ranks have ended well ours are through, too: torchrun's agents wait for each other.
_ENDING_S = 15.0
#: Of an error's text, so that it fits into an answer (``wire``), where JSON writes some characters as two.
_MOST_BYTES, _MOST_BYTES_JSON = 3_000, 1_500


class Order(Handle):
    """What the process is told. ``address``: of this host; ``told_path``: where it writes how it is reached."""

    job: TrainingJob
    run_id: str
    address: str
    host: str
    home: str
    order_path: str
    data_dir: str
    base_dir: str
    told_path: str
    patience_s: float = PATIENCE_S


class Begun(Handle):
    """What the order to begin is answered with: where the ranks meet, or what is wrong."""

    port: int = 0
    error: str = ""


class FirstRanks:
    """The ranks of this host, from the order to begin to the end of whatever runs."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._stack = ExitStack()
        self._stop = threading.Event()
        self._waiting: threading.Thread | None = None
        self._failure = ""
        self._log_path = ""

    def begin(self) -> str:
        """Start them; a ``Begun`` as JSON."""
        order = self._order
        context = Context(data_dir=Path(order.data_dir), base_dir=Path(order.base_dir))
        try:
            port = free_port(order.address)
            meeting = Meeting(0, order.address, port, order.address)
            path = Path(order.order_path)
            server = self._stack.enter_context(
                on_host.training(order.job, order.run_id, path, context, meeting=meeting)
            )
        except Exception as error:  # noqa: BLE001 - the other host is told whatever it was
            self.close()
            return Begun(error=_cut(f"{type(error).__name__}: {error}", _MOST_BYTES_JSON)).model_dump_json()
        self._log_path = server.log_path
        context = replace(context, cancelled=self._stop.is_set)

        def wait() -> None:
            from inferbench_tasks.training import launch

            try:
                launch.wait(server, path.parent, context)
            except Exception as error:  # noqa: BLE001 - the other host is told whatever it was
                if not self._stop.is_set():
                    said = (
                        str(error)
                        if isinstance(error, InferBenchError)
                        else f"{type(error).__name__}: {error}"
                    )
                    self._failure = _cut(said)

        self._waiting = threading.Thread(target=wait, name="ranks", daemon=True)
        self._waiting.start()
        return Begun(port=port).model_dump_json()

    def state(self) -> str:
        """ "": they train, or have ended well; else how they failed."""
        return self._failure

    def end(self) -> str:
        """Once the other host's have ended well: "" where ours have, too, and their recording is written."""
        if self._waiting is None:
            return "its ranks were never started"
        self._waiting.join(_ENDING_S)
        if self._waiting.is_alive():
            self._failure = f"its ranks still ran {_ENDING_S:.0f} s after the other host's had ended"
        self.close()
        if not self._failure:
            try:
                job, folder = self._order.job, Path(self._order.order_path).parent
                on_host.require_answers(on_host.own_answers(job, folder), self._log_path)
            except InferBenchError as error:
                self._failure = _cut(str(error))
        return self._failure

    def close(self) -> None:
        """End whatever runs."""
        self._stop.set()
        self._stack.close()
        if self._waiting is not None:
            self._waiting.join(_ENDING_S)


def _cut(text: str, most: int = _MOST_BYTES) -> str:
    """The beginning of it, which says the cause; the end of a log stands behind."""
    return text.encode()[:most].decode(errors="ignore")


def serve(order: Order, far: FarSide) -> None:
    """Answer the other host until it is done, or gone."""
    ranks = FirstRanks(order)
    try:
        far.invitation.write(Path(order.told_path))
        peer = far.serve(
            order.patience_s, {wire.BEGIN: ranks.begin, wire.STATE: ranks.state, wire.END: ranks.end}
        )
        log.info("done peer=%s", peer)
    finally:
        ranks.close()


def main(path: Path) -> None:
    """The process."""
    from inferbench_tasks.networks.links.far_side import FarSide

    order = Order.model_validate_json(path.read_text())
    with FarSide(order.address, 0, order.host, order.home) as far:
        serve(order, far)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    main(Path(sys.argv[1]))
