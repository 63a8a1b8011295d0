"""How several servers share one device: what a method does around the start of a server, by ``share.method``."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.errors import InputError
from inferbench_tasks.registry import Registry
from inferbench_tasks.submission.schema import JobSpec


class Sharing(ABC):
    """``folder``: of the run whose device is shared; what it starts there lives until ``stop``."""

    kind: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    @abstractmethod
    def unavailable(cls, device: DeviceSpec) -> str | None:
        """Why it can't be used here for that device; None if it can."""

    def start(self) -> None:
        """Make the device ready to be shared; harmless when it is."""
        return

    def environment(self, percentage: int | None) -> dict[str, str]:
        """What a server of this share must find in its environment."""
        return {}

    def stop(self) -> None:
        """Undo ``start``; harmless when nothing was started."""
        return


SHARINGS: Registry[type[Sharing]] = Registry(
    "way to share a device",
    "inferbench.sharing",
    {
        "colocate": "inferbench_tasks.sharing.colocate:Colocate",
        "mps": "inferbench_tasks.sharing.mps:Mps",
    },
)


@contextmanager
def placed(job: JobSpec, folder: Path) -> Iterator[None]:
    """A server that is started within shares its device as the job says; without ``share`` nothing happens.

    Raises InputError where the method or the cores can't be had here.
    """
    share = job.share
    if share is None:
        yield
        return
    kind = SHARINGS.load(share.method, "share.method")
    if reason := kind.unavailable(job.serve.device):
        raise InputError(f"{share.method} can't be used here: {reason}", field="share.method")
    method = kind(folder)
    method.start()
    environment = method.environment(share.percentage)
    before = {name: os.environ.get(name) for name in environment}
    with on_cores(share.cores):
        os.environ.update(environment)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


@contextmanager
def on_cores(cores: tuple[int, ...]) -> Iterator[None]:
    """This thread, and every process that it starts within, runs on these cores only; () for no change."""
    if not cores:
        yield
        return
    usable = os.sched_getaffinity(0)
    if unknown := sorted(set(cores) - usable):
        raise InputError(f"{unknown} can't be used here; usable: {sorted(usable)}", field="share.cores")
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def end(job: JobSpec, folder: Path) -> None:
    """End what a job's sharing had started."""
    if job.share is not None and job.share.method in SHARINGS:
        SHARINGS.load(job.share.method)(folder).stop()
