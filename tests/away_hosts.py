"""Stages of a job as a host of its own runs them: ``python -m tests.away_hosts ORDER`` in that host's namespace."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

RUN = "manual__2026-01-01T00:00:00+00:00"


def main(order: dict[str, Any]) -> dict[str, Any]:
    """The outputs of all stages so far; ``error`` where one failed."""
    os.environ |= order["environment"]
    from inferbench_tasks.abilities import INSTALLED
    from inferbench_tasks.errors import InferBenchError
    from inferbench_tasks.plan.compile import compile_plan
    from inferbench_tasks.running.execute import execute_node
    from inferbench_tasks.running.fence import Fence
    from inferbench_tasks.running.invocation import Invocation
    from inferbench_tasks.submission.reader import read_submission_text

    home, outputs = Path(order["home"]), order["outputs"]
    submission = read_submission_text(order["yaml"], "x.yaml", INSTALLED)
    try:
        for node in compile_plan(submission).nodes:
            if node.stage in order["stages"]:
                fence = Fence(order["device"], order["job"]) if node.lease and not node.cleans_up else None
                outputs[node.id] = execute_node(
                    node,
                    {name: outputs[need] for name, need in node.needs.items() if need in outputs},
                    invocation=Invocation.of_dag_run(home, submission.name, RUN),
                    base_dir=home,
                    hold_machine=False,
                    fence=fence,
                )
    except InferBenchError as error:
        return {"error": str(error), "outputs": outputs}
    return {"outputs": outputs}


@contextmanager
def relayed(address: str, port: int, *, at: int = 0, to: str = "127.0.0.1") -> Iterator[int]:
    """A port on that address behind which a port of this machine's loopback is: a host of a namespace reaches it.

    ``at``: that one, and not any; ``to``: which address of the loopback.
    """
    listener = socket.create_server((address, at))
    opened: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection((to, port))
                opened.extend((near, far))
                for one, other in ((near, far), (far, near)):
                    threads.append(threading.Thread(target=copy, args=(one, other), daemon=True))
                    threads[-1].start()

    threads.append(threading.Thread(target=accept, daemon=True))
    threads[0].start()
    try:
        yield listener.getsockname()[1]
    finally:
        for end in (listener, *opened):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(10)
        for end in (listener, *opened):
            end.close()


if __name__ == "__main__":
    order_path = Path(sys.argv[1])
    answer = main(json.loads(order_path.read_text()))
    order_path.with_suffix(".answer").write_text(json.dumps(answer))
