"""Work of a stage in a process of its own: ``python -m inferbench_tasks.stages.child``.

Making and converting models imports frameworks of gigabytes, which spin threads, may crash and can't be
interrupted. In a child they are ended when the user stops the run, a crash has a name, and their memory
is free again before anything is measured.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from inferbench_tasks import errors
from inferbench_tasks.backends.base import thread_env
from inferbench_tasks.errors import CancelledError, InferBenchError, StageError
from inferbench_tasks.modelrepo.base import Watch
from inferbench_tasks.stages.base import Context, StageInput

Out = TypeVar("Out", bound=BaseModel)

#: The stages whose ``produce(inp, data_dir, base_dir, watch)`` may run here.
ChildStage = Literal["generate", "convert"]
POLL_S = 0.1
_PR_SET_PDEATHSIG = 1
#: How much of the child's own output a message about its death shows.
SHOWN_LINES = 15


def run_in_child(stage: ChildStage, inp: StageInput, output: type[Out], ctx: Context) -> Out:
    """Run ``produce`` of a stage in a child and return its output.

    Raises the InferBenchError that the child raised, CancelledError once the run is cancelled, and
    StageError, with the end of the child's own output, where it died.
    """
    order = {
        "stage": stage,
        "input": inp.model_dump(mode="json"),
        "data_dir": str(ctx.data_dir),
        "base_dir": str(ctx.base_dir),
        "parent": os.getpid(),
    }
    log_path = ctx.run_dir(inp.run_id) / f"{stage}.log"
    env = {
        **os.environ, **thread_env(1), "TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0",
        "CUDA_VISIBLE_DEVICES": "", "KERAS_BACKEND": "tensorflow", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    with open(log_path, "wb") as log_file:
        child = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_file,
            env=env,
            start_new_session=True,
            text=True,
        )
    try:
        assert child.stdin and child.stdout
        child.stdin.write(json.dumps(order))
        child.stdin.close()
        answer = _follow(child, ctx, stage)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        code = child.wait()
        if child.stdout:
            child.stdout.close()
    if answer is None:
        why = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        end = log_path.read_text(errors="replace").splitlines()[-SHOWN_LINES:]
        raise StageError(f"{stage}: its process {why}. The end of its output:\n" + "\n".join(end))
    if "error" in answer:
        raise _error(answer["error"], stage)
    return output.model_validate(answer["output"])


def _follow(child: subprocess.Popen[str], ctx: Context, stage: str) -> dict[str, Any] | None:
    """Relay progress until the answer comes; None if the child ended without one."""
    lines: SimpleQueue[str | None] = SimpleQueue()
    stdout = child.stdout
    assert stdout

    def read() -> None:
        for line in stdout:
            lines.put(line)
        lines.put(None)

    reader = threading.Thread(target=read, name=f"{stage}-child-reader", daemon=True)
    reader.start()
    while True:
        if ctx.cancelled():
            raise CancelledError(f"Cancelled during {stage}.")
        try:
            line = lines.get(timeout=POLL_S)
        except Empty:
            continue
        if line is None:
            return None
        message: dict[str, Any] = json.loads(line)
        if "progress" not in message:
            return message
        done, total, text = message["progress"]
        ctx.progress(done, total, text)


def _error(told: dict[str, str], stage: str) -> InferBenchError:
    kind = getattr(errors, told["type"], None)
    if isinstance(kind, type) and issubclass(kind, InferBenchError) and kind is not errors.SubmissionError:
        return kind(told["message"])
    return StageError(f"{stage}: {told['type']}: {told['message']}")


def main() -> None:
    """The child's side: one order on stdin; progress and one answer as lines on what was stdout."""
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries print to stdout; that must not mix with our lines
    order = json.load(sys.stdin)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != order["parent"]:
        sys.exit(1)  # the parent ended before we asked to follow it
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")

    def progress(done: float, total: float | None, text: str) -> None:
        told.write(json.dumps({"progress": [done, total, text]}) + "\n")

    module = importlib.import_module(f"inferbench_tasks.stages.{order['stage']}")
    inp = module.Input.model_validate(order["input"])
    try:
        output = module.produce(inp, Path(order["data_dir"]), Path(order["base_dir"]), Watch(progress))
        told.write(json.dumps({"output": output.model_dump(mode="json")}) + "\n")
    except Exception as error:
        logging.exception("stage failed stage=%s", order["stage"])
        kind = type(error).__name__
        message = str(error)
        if isinstance(error, OSError) and not isinstance(error, InferBenchError):
            kind, message = "StorageError", f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
        told.write(json.dumps({"error": {"type": kind, "message": message}}) + "\n")
    told.flush()
    # Frameworks hang now and then while they tear themselves down; everything is written.
    os._exit(0)


if __name__ == "__main__":
    main()
