"""A further client host's part of one load: its senders, its monitors, its link, and what it hands over.

Stage ``load`` on the first client host asks (``messages``); a thread of its own does what takes long meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.link import LinkEnd
from inferbench_tasks.errors import InferBenchError, LoadError
from inferbench_tasks.networks.links.following import nothing
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.load_order import Input, plan_of
from inferbench_tasks.stages.one_load import client_ceiling
from inferbench_tasks.stages.senders.messages import (
    ABOUT,
    MONITORS,
    PART,
    About,
    Part,
    Question,
    State,
    piece,
)
from inferbench_tasks.stages.senders.own_side import own_side

if TYPE_CHECKING:
    from inferbench_tasks.loadgen.controller import Applied
    from inferbench_tasks.loadgen.live import Snapshot
    from inferbench_tasks.loadgen.plan import LoadPlan

log = logging.getLogger(__name__)

#: How long the first host may take to connect, beside what it may wait for a quiet machine.
PATIENCE_S = 900.0
#: A start that is nearer than this is too near: a sender has to have read of it.
LEAST_NOTICE_NS = 50_000_000
#: Of an error's text, so that it fits into an answer.
_MOST_WORDS = 1_500
_END_S = 30.0
#: Who is connected to, in what is said where that fails.
_LISTENER = "what `serve` started beside the server for this host"


class Order(Handle):
    """What the process is told. ``number``: of the hosts beside the first one, from 1. ``device_id``, ``token``: the
    device of this host, and the job's right to it; "" and None where nobody leases any.
    """

    load: Input
    number: int
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


class LedPart:
    """One part of one load, from the order to prepare to whatever ends it."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._folder = Path(order.folder)
        self._state = State()
        self._stop, self._start, self._close = threading.Event(), threading.Event(), threading.Event()
        self._gone = threading.Event()
        self._start_ns, self._window = 0, (0, 0)
        self._thread: threading.Thread | None = None

    def answer(self, words: str) -> bytes:
        """What the first client host is answered."""
        question = Question.model_validate_json(words)
        if question.do == "state":
            return self._state.model_dump_json().encode()
        if question.do == "take":
            return self._piece(question.name, question.at)
        if question.do == "prepare" and self._thread is None:
            self._state = State(stage="preparing")
            self._thread = threading.Thread(target=self._run, args=(question,), name="part", daemon=True)
            self._thread.start()
        elif question.do == "start":
            if question.start_ns - time.monotonic_ns() < LEAST_NOTICE_NS or self._state.stage != "ready":
                return b"too late"
            self._start_ns = question.start_ns
            self._start.set()
        elif question.do == "stop":
            self._stop.set()
        elif question.do == "close":
            self._window = question.start_ns, question.end_ns
            self._close.set()
        return b""

    def end(self) -> None:
        """Whatever runs."""
        self._gone.set()
        if self._thread is not None:
            self._thread.join(_END_S)

    def _piece(self, name: str, at: int) -> bytes:
        """Only of what was made for it to be taken."""
        allowed = {PART, ABOUT, MONITORS, *(f"shard-{shard}.spool" for shard in range(1024))}
        return piece(self._folder / name, at) if name in allowed else b""

    def _run(self, question: Question) -> None:
        try:
            self._share(question)
        except Exception as error:
            # Whatever it was: the first host is told.
            log.exception("its part of the load failed")
            said = str(error) if isinstance(error, InferBenchError) else f"{type(error).__name__}: {error}"
            words = said.encode()[:_MOST_WORDS].decode(errors="ignore")
            self._state = self._state.model_copy(update={"problem": words or "it failed without a word"})

    def _share(self, question: Question) -> None:
        from inferbench_tasks.loadgen.controller import Controller
        from inferbench_tasks.loadgen.sender_hosts import part_of, schedule_digest

        order, inp = self._order, self._order.load
        context = Context(
            data_dir=Path(order.data_dir), base_dir=Path(order.base_dir), cancelled=self._gone.is_set
        )
        plan = plan_of(inp, context, self._folder, inp.serve.endpoint, question.shards)
        if schedule_digest(plan) != question.digest:
            raise LoadError(
                "it draws another schedule than the first client host: both need one version of InferBench and of "
                "what it is built on"
            )
        plan = part_of(plan, order.number, inp.job.traffic.client_hosts)
        ceiling = client_ceiling(inp, plan, context)
        me = LinkEnd(host=order.host, home=order.home, address="", boot_id=settings.boot_id())
        watch = inp.serve.far_further[order.number - 1]
        with own_side(watch, me, listener=_LISTENER, what="its part of the load") as side:
            side.measure()
            with side.recorded(self._folder / MONITORS, nothing):
                controller = Controller(plan, progress=self._progress, cancelled=self._ended)
                applied = controller.apply(self._starts)
            self._hand_over(plan, applied)
            sent = {"stage": "sent", "in_flight": 0, "stopped": applied.stopped_early or ""}
            self._state = self._state.model_copy(update=sent)
            while not self._close.wait(0.05):
                if self._gone.is_set():
                    return
            self._state = self._state.model_copy(update={"stage": "closing"})
            side.measure_again()
        about = About(**side.facts(*self._window).facts, ceiling=ceiling.model_dump())
        (self._folder / ABOUT).write_text(about.model_dump_json())
        self._state = self._state.model_copy(update={"stage": "closed"})

    def _starts(self) -> int | None:
        """All senders of this host are ready: when they begin, once the first host says it."""
        self._state = self._state.model_copy(update={"stage": "ready"})
        while not self._start.wait(0.05):
            if self._ended():
                return None
        self._state = self._state.model_copy(update={"stage": "sending"})
        return self._start_ns

    def _ended(self) -> bool:
        return self._stop.is_set() or self._gone.is_set()

    def _progress(self, done_s: float, total_s: float, snapshot: Snapshot | None) -> None:
        if snapshot is not None:
            now = {
                "done": snapshot.done, "errors": snapshot.errors, "in_flight": snapshot.in_flight,
                "rate_rps": snapshot.rate_rps,
            }  # fmt: skip
            self._state = self._state.model_copy(update=now)

    def _hand_over(self, plan: LoadPlan, applied: Applied) -> None:
        """What was sent, for the first host to take; LoadError where it is not all that was to be sent till then."""
        if applied.problem:
            raise LoadError(applied.problem)
        if applied.cancelled and not self._stop.is_set():
            raise LoadError("it was ended before it had sent its part")
        part = Part(
            start_ns=applied.start_ns,
            end_ns=applied.end_ns,
            usages=applied.usages,
            explanations=applied.explanations,
            stopped_early=applied.stopped_early,
            quota_ns=applied.quota_ns,
            spools={path.name: path.stat().st_size for path in map(plan.spool_path, plan.own)},
        )
        (self._folder / PART).write_text(part.model_dump_json())

    def forget(self) -> None:
        """What the first host has all of; of a load that came to no end all is kept."""
        if self._state.stage != "closed":
            return
        for path in (self._folder / name for name in (PART, ABOUT, MONITORS)):
            path.unlink(missing_ok=True)
        for path in self._folder.glob("shard-*.spool"):
            path.unlink()
