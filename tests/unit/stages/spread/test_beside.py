"""What stands beside a replica tells of its server."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.launchers import processes
from inferbench_tasks.stages.senders.far_watch import Order
from inferbench_tasks.stages.spread.beside import ReplicaWatch


def watch(folder: Path, started_ns: int) -> ReplicaWatch:
    """Of a server that is this process, if it began when this one did."""
    (folder / "server.log").write_text("Killed")
    log = str(folder / "server.log")
    handle = ServerHandle(
        launcher="process", pid=os.getpid(), started_ns=started_ns, log_path=log, config_path=""
    )
    return ReplicaWatch(
        Order(
            address="127.0.0.1", host="h", home="1" * 32, server=handle, device="cpu",
            recording_path=str(folder / "far.parquet"), told_path=str(folder / "told"),
        )
    )  # fmt: skip


def test_a_server_that_was_ended_for_what_it_took_is_told_by_that(tmp_path: Path) -> None:
    """Not as one that died by itself, with the end of a log that says nothing of it."""
    gone = watch(tmp_path, started_ns=1)
    gone._excess = SimpleNamespace(reason="The server had 9 MiB of memory; allowed are 1, and was ended")
    assert gone.state() == "The server had 9 MiB of memory; allowed are 1, and was ended"
    assert gone.end().startswith("The server had 9 MiB")


def test_a_server_that_died_is_told_with_its_log_and_one_that_lives_with_nothing(tmp_path: Path) -> None:
    """Whether anybody watches what it takes or not."""
    said = watch(tmp_path, started_ns=1).state()
    assert said.startswith("its server ended while the load lasted") and said.endswith("Killed")
    assert watch(tmp_path, processes.created_ns(os.getpid())).state() == ""
