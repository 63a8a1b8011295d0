"""One file per running server under ``<data>/servers/``, so that an orphan can be found and ended."""

from __future__ import annotations

import glob
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.contracts.server_record import ServerRecord
from inferbench_tasks.launchers.base import LAUNCHERS

log = logging.getLogger(__name__)


def write(servers_dir: Path, record: ServerRecord) -> Path:
    """Write a server's record; whole or not at all."""
    servers_dir.mkdir(parents=True, exist_ok=True)
    path = servers_dir / f"{record.token}.json"
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(record.model_dump_json())
    partial.replace(path)
    return path


def read_all(servers_dir: Path) -> dict[Path, ServerRecord]:
    """Every record; a file that can't be understood is skipped and logged."""
    records: dict[Path, ServerRecord] = {}
    for path in sorted(servers_dir.glob("*.json")):
        try:
            records[path] = ServerRecord.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            continue  # its server was ended meanwhile
        except (ValidationError, json.JSONDecodeError) as error:
            log.warning("server record can't be read path=%s error=%s", path, error)
    return records


def end_worker(servers_dir: Path, worker: str) -> list[str]:
    """End every server that was started on a device, alone or with others; the runs."""
    return _sweep(servers_dir, lambda record: worker == record.worker or worker in record.devices)


def sweep(servers_dir: Path, is_over: Callable[[str], bool]) -> list[str]:
    """End the servers whose run ``is_over``; returns these runs. Records of dead servers are removed."""
    return _sweep(servers_dir, lambda record: is_over(record.run_id))


def _sweep(servers_dir: Path, is_over: Callable[[ServerRecord], bool]) -> list[str]:
    """Ends the servers of records that are over.

    Of a start that was interrupted nothing is known but its token: it is ended once its run is over.
    """
    run_ids = []
    for path, record in read_all(servers_dir).items():
        launcher = LAUNCHERS.load(record.launcher)()
        over = is_over(record)
        if not over and (record.server is None or launcher.alive(record.server)):
            continue
        if launcher.stop(record):
            log.info("ended a server run_id=%s token=%s", record.run_id, record.token)
            run_ids.append(record.run_id)
        for pattern in record.leftovers:
            for partial in glob.glob(pattern):
                Path(partial).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    return run_ids


def end_run(servers_dir: Path, run_id: str) -> bool:
    """End every server of one run; whether there was one."""
    return bool(sweep(servers_dir, lambda of: of == run_id))


def end_server(servers_dir: Path, server: ServerHandle) -> bool:
    """End one server, and no other of its run; whether it was there."""
    return bool(_sweep(servers_dir, lambda record: record.server == server))


def find(servers_dir: Path, server: ServerHandle) -> ServerRecord | None:
    """The record of a server; None once it was ended."""
    for record in read_all(servers_dir).values():
        if record.server == server:
            return record
    return None
