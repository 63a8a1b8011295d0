"""The process on the load's host that sends the load again for a trace of a share of its requests.

Stage ``load`` starts it once its load was sent, as a process of the run. Stage ``trace``, on the server's host, knows
it by a secret of its own, and has it send to one server after the other; once that connection ends, however, nothing
is sent any more. A host whose device the job has lost waits no longer.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.launchers import records
from inferbench_tasks.networks.reached_address import reached_address
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.lease_token import is_lost, token_of
from inferbench_tasks.stages.load_order import Input
from inferbench_tasks.stages.senders import listener
from inferbench_tasks.stages.senders.far_watch import FarWatch
from inferbench_tasks.stages.senders.handles import TraceSender
from inferbench_tasks.stages.senders.messages import TRACED, State, TraceQuestion, piece

if TYPE_CHECKING:
    from inferbench_tasks.networks.links.far_side import FarSide

log = logging.getLogger(__name__)

#: How long ``trace`` may take to connect: it follows the load, once what it reads has come to its host.
PATIENCE_S = 900.0
#: So often it looks whether the job still holds this host's device, until somebody connects.
_LOOK_S = 5.0
#: Of an error's text, so that it fits into an answer.
_MOST_WORDS = 1_500
_END_S = 30.0


class Order(Handle):
    """What the process is told. ``device_id``, ``token``: the device of this host, and the job's right to it; "" and
    None where nobody leases any.
    """

    load: Input
    address: str
    host: str
    home: str
    folder: str
    data_dir: str
    base_dir: str
    told_path: str
    device_id: str
    token: int | None
    patience_s: float = PATIENCE_S


def waiting(inp: Input, ctx: Context) -> TraceSender:
    """Start it, or say why it did not: a load that was measured stands whatever its trace becomes."""
    host = socket.gethostname()
    try:
        return TraceSender(host=host, reached=_started(inp, ctx, host))
    except (InferBenchError, OSError) as error:
        log.warning("no traced load run_id=%s: %s", inp.run_id, error)
        return TraceSender(host=host, problem=str(error))


def _started(inp: Input, ctx: Context, host: str) -> FarWatch:
    """InputError where this host has no address for others; ServerError where it does not say where it listens."""
    folder = ctx.run_dir(inp.run_id) / "trace-sender"
    folder.mkdir(exist_ok=True)
    servers_dir = settings.servers_dir(ctx.data_dir)
    records.end_run(servers_dir, inp.run_id)  # of an attempt that was killed
    device_id = inp.devices[0].device_id if inp.devices else ""
    order = Order(
        load=inp,
        address=reached_address(),
        host=host,
        home=settings.home_id(ctx.data_dir),
        folder=str(folder),
        data_dir=str(ctx.data_dir),
        base_dir=str(ctx.base_dir),
        told_path=str(folder / "trace-sender.invitation"),
        device_id=device_id,
        token=token_of(device_id, ctx.data_dir),
    )
    invitation = listener.start(
        __name__,
        "trace-sender",
        inp.run_id,
        folder,
        servers_dir,
        order.model_dump_json(),
        Path(order.told_path),
    )
    return FarWatch.of(invitation, "")


class Sender:
    """The job's load, as often as it is asked for; a thread of its own sends it."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._path = Path(order.folder) / TRACED
        self._state = State()
        self._gone = threading.Event()
        self._thread: threading.Thread | None = None

    def answer(self, words: str) -> bytes:
        """What ``trace`` is answered."""
        question = TraceQuestion.model_validate_json(words)
        if question.do == "take":
            return piece(self._path, question.at)
        if question.do == "send" and self._state.stage != "sending":
            self._state = State(stage="sending")
            self._thread = threading.Thread(target=self._run, args=(question,), name="load", daemon=True)
            self._thread.start()
        return self._state.model_dump_json().encode()

    def end(self) -> None:
        """Whatever is sent, and what was."""
        self._gone.set()
        if self._thread is not None:
            self._thread.join(_END_S)
        self._path.unlink(missing_ok=True)

    def _run(self, question: TraceQuestion) -> None:
        try:
            self._send(question)
        except Exception as error:
            # Whatever it was: ``trace`` is told.
            log.exception("the traced load failed")
            said = str(error) if isinstance(error, InferBenchError) else f"{type(error).__name__}: {error}"
            words = said.encode()[:_MOST_WORDS].decode(errors="ignore")
            self._state = State(stage="sent", problem=words or "it failed without a word")

    def _send(self, question: TraceQuestion) -> None:
        from inferbench_tasks.stages.sampled_load import send

        assert question.endpoint is not None
        context = Context(
            data_dir=Path(self._order.data_dir),
            base_dir=Path(self._order.base_dir),
            cancelled=self._gone.is_set,
        )
        sent = send(self._order.load, context, question.endpoint, question.seed, question.one_in)
        self._path.write_bytes(sent.dumped())
        self._state = State(stage="sent")


def serve(order: Order, far: FarSide) -> None:
    """Answer ``trace`` until it is done, or gone; nobody, once the job has lost this host's device."""
    far.invitation.write(Path(order.told_path))
    sender = Sender(order)
    deadline_s = time.monotonic() + order.patience_s
    peer = None
    try:
        while peer is None and time.monotonic() < deadline_s:
            if is_lost(order.device_id, order.token, Path(order.data_dir)):
                break
            peer = far.serve(_LOOK_S, answering=sender.answer)
        log.info("done peer=%s", peer)
    finally:
        sender.end()


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
