"""The process that times networks, inside the sandbox: a network may come from anybody, and so may what it opens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inferbench_tasks import sandbox
from inferbench_tasks.bricks.measure.child import Plan
from inferbench_tasks.sandbox import group, limits
from inferbench_tasks.strangers_folder import opened

_IT = "it"
#: How a network that is at fault ends its process; by other signals somebody else does.
_OWN_SIGNALS = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS}


class Timing(subprocess.Popen[str]):
    """The process; ``excess``: why it was ended for what it took of the machine."""

    excess: str | None = None

    def by_itself(self) -> bool:
        """Whether it ended by what it did."""
        code = self.returncode
        return self.excess is not None or code > 0 or -code in _OWN_SIGNALS

    def ended(self) -> str:
        """How, in words."""
        if self.excess is not None:
            return self.excess
        code = self.returncode
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


@contextmanager
def timing(plan: Plan, path: Path, errors: Path) -> Iterator[Timing]:
    """Start it on the plan in that file; at the end nothing of it is left.

    It reads the networks, writes into the plan's folder and its journal, and reaches no network. InputError where a
    sandbox is required that this kernel does not have.
    """
    if plan.journal is not None:
        plan.journal.touch()  # it may write this one, and none beside it
    with confined(
        "inferbench_tasks.bricks.measure.child", path, _reach(plan), plan.folder, errors
    ) as process:
        yield process


@contextmanager
def confined(module: str, order: Path, reach: sandbox.Reach, folder: Path, errors: Path) -> Iterator[Timing]:
    """A module as a process that opens networks, given the file of its order; ``folder``: its home, ``errors``: where
    its words go. As ``timing``."""
    sandbox.require()
    in_sandbox = sandbox.setting() != "off"
    uid = sandbox.draw() if in_sandbox else None
    env = sandbox.environment(os.environ, also=["CUDA_VISIBLE_DEVICES"]) | {
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }
    env |= sandbox.names(uid)

    def start() -> Timing:
        return Timing(
            [sys.executable, "-m", module, str(order)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            text=True, env=env, start_new_session=True,
        )  # fmt: skip

    with opened(errors, "wb") as log:  # a process before this one could write in its folder
        process = sandbox.started(reach, start, uid) if in_sandbox else start()
    try:
        limits.first_to_go(process.pid)
        if in_sandbox:
            sandbox.bounded(process.pid, uid, sandbox.Bounds.of(uid, folder))
        with sandbox.watched([(_IT, sandbox.Watch(process.pid, uid))] if in_sandbox else []) as verdict:
            yield process
            process.wait()
        process.excess = verdict.reason and verdict.reason.removeprefix(f"{_IT} ")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        if uid is not None:  # what it started and let go
            group.end(process.pid, uid)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _reach(plan: Plan) -> sandbox.Reach:
    """Each network with its inputs, and what lies beside them: weights that are too many for one file."""
    reads = {str(path.parent) for item in plan.items for path in (item.path, item.feeds)}
    writes = [str(plan.folder), *([str(plan.journal)] if plan.journal else [])]
    return sandbox.Reach(reads=tuple(sorted(reads)), writes=tuple(writes))
