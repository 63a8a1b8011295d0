"""One execution of a submission: its id, its folder, and how its progress and its end are told."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from inferbench_tasks import settings
from inferbench_tasks.contracts.part import whole_of
from inferbench_tasks.pipelines.base import AnySubmission


def run_id(invocation_id: str, job_index: int) -> str:
    """The id of one job's run within an invocation."""
    return f"{invocation_id}.{job_index:03d}"


def dag_run_invocation(dag_id: str, dag_run_id: str) -> str:
    """The id of the invocation that an Airflow DAG run is; the runs of a submission's parts are one with its own."""
    dag_id = whole_of(dag_id)
    time_in_it = re.search(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", dag_run_id)
    stamp = re.sub(r"[^0-9A-Za-z]+", "", time_in_it[0] if time_in_it else dag_run_id)[-24:]
    unique = hashlib.sha256(f"{dag_id}\0{dag_run_id}".encode()).hexdigest()[:8]
    return f"{dag_id}-{stamp}-{unique}"


class Order(BaseModel):
    """What a local invocation is to do; written by ``inferbench run``, read by its child."""

    submission: AnySubmission
    base_dir: str
    data_dir: str


@dataclass(frozen=True)
class Invocation:
    """``dir`` is its folder, shared by all processes that work on it."""

    id: str
    dir: Path

    @classmethod
    def new(cls, data_dir: Path, name: str) -> Invocation:
        """A fresh invocation: ``<name>-<UTC time>-<random>``; the folder is made."""
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        return cls._at(data_dir, f"{name}-{stamp}-{os.urandom(3).hex()}")

    @classmethod
    def of_dag_run(cls, data_dir: Path, dag_id: str, dag_run_id: str) -> Invocation:
        """The invocation of an Airflow DAG run; a retry of one of its tasks finds the same."""
        if folder := os.environ.get(settings.INVOCATION_DIR):
            return cls.at(Path(folder))
        return cls._at(data_dir, dag_run_invocation(dag_id, dag_run_id))

    @classmethod
    def at(cls, folder: Path) -> Invocation:
        """The invocation whose folder that is."""
        return cls(folder.name, folder)

    def place(self, order: Order) -> None:
        """Write down what is to be done."""
        (self.dir / "order.json").write_text(order.model_dump_json())

    def order(self) -> Order:
        """What is to be done."""
        return Order.model_validate_json((self.dir / "order.json").read_bytes())

    @classmethod
    def base_dir_of(cls, data_dir: Path, invocation_id: str) -> Path | None:
        """The folder of the submission of a local invocation; None of any other, or where its folder was removed."""
        path = data_dir / "invocations" / invocation_id / "order.json"
        # Of any version: its submission may be one that this version can't read.
        return Path(json.loads(path.read_bytes())["base_dir"]) if path.exists() else None

    @classmethod
    def _at(cls, data_dir: Path, invocation_id: str) -> Invocation:
        folder = data_dir / "invocations" / invocation_id
        folder.mkdir(parents=True, exist_ok=True)
        return cls(invocation_id, folder)

    def is_local(self) -> bool:
        """Whether one process runs all its stages (``inferbench run``)."""
        return (self.dir / "order.json").exists()

    def run_id(self, job_index: int) -> str:
        """The id of one of its runs."""
        return run_id(self.id, job_index)

    def cancel(self) -> None:
        """Ask every process that works on this invocation to stop."""
        (self.dir / "cancel").touch()

    def cancelled(self) -> bool:
        """Whether it was asked to stop."""
        return (self.dir / "cancel").exists()

    def tell(self, **event: Any) -> None:
        """Append an event for whoever watches; one line, one write, so that writers don't mix."""
        line = json.dumps({"t": time.time(), **event}, separators=(",", ":")) + "\n"
        with open(self.dir / "events.jsonl", "ab", buffering=0) as file:
            file.write(line.encode())
