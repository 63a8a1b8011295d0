"""Work of a stage in a process of its own: ``child_main`` is its side of it.

Making and converting models imports frameworks of gigabytes, which spin threads, may crash and can't be
interrupted. In a child they are ended when the user stops the run, a crash has a name, and their memory
is free again before anything is measured.

A submission of many small models would spend most of its time on importing the same framework again. So while
``keeping()`` is on, the child of a built-in or generated model stays for the next one of the same framework. It
waits without using the CPU; it is ended when it has grown, after any failure, and for any other framework. What
a user brings (files, their code) always gets a child of its own. Once that has ended, nothing is left in the run's
folder that this process would follow elsewhere when it writes there.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from queue import Empty, SimpleQueue
from types import ModuleType
from typing import Any

import psutil

from inferbench_tasks import errors, sandbox
from inferbench_tasks.artifacts.scratch import Scratch
from inferbench_tasks.backends.base import thread_env
from inferbench_tasks.background import step_back
from inferbench_tasks.errors import CancelledError, InferBenchError, StageError
from inferbench_tasks.running import messages
from inferbench_tasks.running.delivery import delivered
from inferbench_tasks.running.place import Place, fetch_data, install
from inferbench_tasks.sandbox import bytecode, group, limits
from inferbench_tasks.stages.base import Context, JobInput, name_of
from inferbench_tasks.strangers_folder import cleared, end_of, opened

log = logging.getLogger(__name__)

POLL_S = 0.1
#: A child that has more memory than this is not kept: it is to be free while something is measured.
KEPT_BYTES = 1_500_000_000
#: How much of the child's own output a message about its death shows.
SHOWN_LINES = 15


@contextmanager
def keeping() -> Iterator[None]:
    """Inside, a child may stay for the next order; at the end none is left. For one thread at a time."""
    before, _shelf.open = _shelf.open, True
    try:
        yield
    finally:
        _shelf.open = before
        _shelf.clear()


def run_in_child(module: ModuleType, inp: JobInput, ctx: Context) -> Any:
    """Run a stage in a child and return its output.

    Raises the InferBenchError that the child raised, CancelledError once the run is cancelled, and
    StageError, with the end of the child's own output, where it died, and where it left a link or a pipe in the run's
    folder; OSError where one stands in the place of its log.
    """
    stage = name_of(module)
    log_path = ctx.run_dir(inp.run_id) / f"{stage}.log"
    opened(log_path, "wb").close()
    order = {
        "module": module.__name__,
        "input": inp.model_dump(mode="json"),
        "data_dir": str(ctx.data_dir),
        "base_dir": str(ctx.base_dir),
        "log": str(log_path),
    }
    key = inp.child_key if _shelf.open else ""
    sandbox.require()
    install(inp, ctx)
    fetch_data(inp, ctx)
    with delivered(inp, ctx) as delivery:
        return _ask(module, inp, ctx, {**order, "registered": delivery}, key)


def _ask(module: ModuleType, inp: JobInput, ctx: Context, order: dict[str, Any], key: str) -> Any:
    """Give a child the order; as ``run_in_child``. ``key``: whose kept child may take it, empty for none."""
    stage, log_path = name_of(module), Path(order["log"])
    place = Place.of(inp, ctx, kept=bool(key))
    child = _shelf.take(key, log_path, place)
    try:
        answer = child.ask(order, ctx, stage)
        if (
            answer is None and child.orders > 1
        ):  # it may have died while it waited: that is no failure of this
            child.end()
            child = _Child(log_path, place)
            answer = child.ask(order, ctx, stage)
    except BaseException:
        child.end()
        with suppress(OSError):  # what is told is the first error
            _left(place, ctx.run_dir(inp.run_id))
        raise
    if answer is not None and "output" in answer and key and child.bytes() <= KEPT_BYTES:
        _shelf.put(key, child)
        return module.Output.model_validate(answer["output"])
    code = child.end()
    left = _left(place, ctx.run_dir(inp.run_id))
    if answer is None:
        why = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        raise StageError(f"{stage}: its process {why}. The end of its output:\n{_end_of(log_path)}")
    if "error" in answer:
        raise _error(answer["error"], stage)
    if left:
        raise StageError(
            f"{stage}: its process left what is no plain file in the run's folder, and that was removed: "
            f"{'; '.join(left)[:1000]}. Who opens such a name with more rights would be led elsewhere by it"
        )
    return module.Output.model_validate(answer["output"])


def _left(place: Place, run_dir: Path) -> list[str]:
    """What a child for a stranger's model, which has ended, left in the run's folder and could lead this process
    elsewhere; it is removed. OSError where it can't be.
    """
    left = [] if place.shares else cleared(run_dir)
    for one in left:
        log.warning("removed from the run's folder: %s", one)
    return left


def _end_of(log_path: Path) -> str:
    try:
        return "\n".join(end_of(log_path).splitlines()[-SHOWN_LINES:])
    except OSError as error:
        return f"(the log can't be read: {error.strerror})"


class _Child:
    """One process, which takes an order at a time."""

    def __init__(self, log_path: Path, place: Place) -> None:
        self.orders = 0
        self._scratch = Scratch()
        self._uid = place.user()
        env = {
            **place.environment, **thread_env(1), "TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0",
            "CUDA_VISIBLE_DEVICES": "", "KERAS_BACKEND": "tensorflow", "HF_HUB_OFFLINE": "1",
            "TMPDIR": self._scratch.path, "HOME": self._scratch.path, **sandbox.names(self._uid),
        }  # fmt: skip
        with opened(log_path, "ab") as log_file:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "inferbench_tasks.running.child_main",
                    str(os.getpid()),
                    json.dumps(asdict(place.reaching(self._scratch.path))),
                    json.dumps(self._uid),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
                env=env,
                start_new_session=True,
            )
        step_back(self._process.pid)
        limits.first_to_go(self._process.pid)
        self._watch = sandbox.Watch(self._process.pid, self._uid, (*place.fills, Path(self._scratch.path)))
        self._lines: SimpleQueue[messages.Message | None] = SimpleQueue()
        threading.Thread(target=self._read, name="stage-child-reader", daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout
        for message in messages.told(self._process.stdout):
            self._lines.put(message)
        self._lines.put(None)

    def alive(self) -> bool:
        """Whether it can take another order."""
        return self._process.poll() is None

    def bytes(self) -> int:
        """Its resident memory; 0 once it is gone."""
        try:
            return int(psutil.Process(self._process.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    def ask(self, order: dict[str, Any], ctx: Context, stage: str) -> dict[str, Any] | None:
        """Relay progress until the answer comes; None if the child ended without one."""
        assert self._process.stdin
        self.orders += 1
        try:
            self._process.stdin.write((json.dumps(order) + "\n").encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            return None
        began_s = looked_s = time.monotonic()
        most_s = limits.most_s()
        while True:
            if ctx.cancelled():
                raise CancelledError(f"Cancelled during {stage}.")
            now_s = time.monotonic()
            if now_s - began_s > most_s:
                raise StageError(f"{stage}: took longer than the {most_s / 3600:g} hours of {limits.TIME}")
            if now_s - looked_s > limits.EVERY_S:
                looked_s = now_s
                if reason := self._watch.excess():
                    raise StageError(f"{stage}: its process {reason}")
            try:
                message = self._lines.get(timeout=POLL_S)
            except Empty:
                continue
            if message is None:
                return None
            if isinstance(message, str):
                raise StageError(f"{stage}: its process said what no stage says: {message}")
            if isinstance(message, messages.Answer):
                bytecode.write(message.lacking)
                return message.document
            ctx.progress(message.amount, message.total, message.text)

    def end(self) -> int:
        """End it with everything it started; its exit code, negative for a signal that had ended it before."""
        if self._process.poll() is None:
            # What has closed its side is on its way out; its own exit code tells more than our signal.
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.0 if self._lines.empty() else 1.0)
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._uid is not None:  # what it started and let go
            group.end(self._process.pid, self._uid)
        code = self._process.wait()
        self._scratch.remove()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with suppress(OSError):
                    pipe.close()
        return code


class _Shelf:
    """The one child that may stay, and the key of the inputs that it is for."""

    def __init__(self) -> None:
        self.open = False
        self._kept: tuple[str, _Child] | None = None

    def take(self, key: str, log_path: Path, place: Place) -> _Child:
        """The kept child, if it is one for that key; a new one otherwise."""
        if self._kept and key and self._kept[0] == key and self._kept[1].alive():
            child, self._kept = self._kept[1], None
            return child
        self.clear()
        return _Child(log_path, place)

    def put(self, key: str, child: _Child) -> None:
        """Keep it for the next order."""
        self._kept = (key, child)

    def clear(self) -> None:
        """End what is kept."""
        if self._kept:
            self._kept[1].end()
        self._kept = None


_shelf = _Shelf()


def _error(document: dict[str, str], stage: str) -> InferBenchError:
    kind = getattr(errors, document["type"], None)
    if kind is not errors.SubmissionError and isinstance(kind, type) and issubclass(kind, errors.InputError):
        return kind(document["message"], field=document.get("field"))
    if isinstance(kind, type) and issubclass(kind, InferBenchError) and kind is not errors.SubmissionError:
        return kind(document["message"])
    return StageError(f"{stage}: {document['type']}: {document['message']}")
