"""The child of ``child``: ``python -m inferbench_tasks.running.child_main PARENT REACH USER``, one order after another.

It may use no more of its machine than the reach (``sandbox.Reach`` as JSON), as that user (null: as who started it).
What it imports before that starts no
thread, which would stay outside.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any, TextIO

from inferbench_tasks import sandbox
from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.sandbox import bytecode

_PR_SET_PDEATHSIG = 1


def main(parent: int, reach: sandbox.Reach, uid: int | None) -> None:
    """Orders on stdin; progress and one answer for each as lines on what was stdout."""
    messages = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries print to stdout; that must not mix with our lines
    if sandbox.setting() != "off":
        sandbox.enter(reach, uid)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of the user would undo it
    if os.getppid() != parent:
        sys.exit(1)  # the parent ended before we asked to follow it
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for line in sys.stdin:
        order = json.loads(line)
        with open(order["log"], "ab") as log_file:
            os.dup2(log_file.fileno(), 2)
            os.dup2(2, 1)
        answer = _carry_out(order, messages)
        messages.write(json.dumps({**answer, "lacking": bytecode.lacking()}) + "\n")
        _forget()
    # Frameworks hang now and then while they tear themselves down; everything is written.
    os._exit(0)


def _carry_out(order: dict[str, Any], messages: TextIO) -> dict[str, Any]:
    def progress(amount: float, total: float | None, text: str) -> None:
        messages.write(json.dumps({"progress": [amount, total, text]}) + "\n")

    from inferbench_tasks.stages.base import Context

    if order["registered"]:
        from inferbench_tasks.modelrepo.registered import deliver

        deliver(order["registered"])
    module = importlib.import_module(order["module"])
    inp = module.Input.model_validate(order["input"])
    context = Context(data_dir=Path(order["data_dir"]), base_dir=Path(order["base_dir"]), progress=progress)
    try:
        output = module.run(inp, context)
        return {"output": output.model_dump(mode="json")}
    except Exception as error:
        logging.exception("stage failed stage=%s", order["module"])
        kind = type(error).__name__
        if isinstance(error, InputError):
            return {"error": {"type": kind, "message": error.message, "field": error.field}}
        message = str(error)
        if isinstance(error, OSError) and not isinstance(error, InferBenchError):
            kind, message = "StorageError", f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
        return {"error": {"type": kind, "message": message}}


def _forget() -> None:
    """What frameworks keep of a model must not reach the next one: names that count up, compiled code."""
    if keras := sys.modules.get("keras"):
        keras.backend.clear_session()
    if dynamo := sys.modules.get("torch._dynamo"):
        dynamo.reset()
    gc.collect()


if __name__ == "__main__":
    atexit.register(
        gc.freeze
    )  # a framework's millions of objects are not looked through once more at the end
    main(int(sys.argv[1]), sandbox.Reach(**json.loads(sys.argv[2])), json.loads(sys.argv[3]))
