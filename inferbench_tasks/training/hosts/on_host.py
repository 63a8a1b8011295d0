"""One host's part of a training: its trainer with its ranks, its monitors, and the end of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from inferbench_tasks import private, settings
from inferbench_tasks.artifacts.scratch import Scratch
from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.cores import granted
from inferbench_tasks.errors import InputError, StageError
from inferbench_tasks.stages.base import Context
from inferbench_tasks.training.hosts.meeting import Meeting
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import ORDER_FILE, PROGRESS_FILE, Order, answer_path


def recording_path(folder: Path) -> Path:
    """Where what the monitors saw is written: not in the ranks' ``folder``, where they may write."""
    return folder.parent / "training-monitors.parquet"


def own_answers(job: TrainingJob, folder: Path, node: int = 0) -> list[Path]:
    """What the ranks of a host write, by rank."""
    each = job.devices.ranks_of_host
    return [answer_path(folder, rank) for rank in range(node * each, (node + 1) * each)]


def prepare(order: Order, folder: Path, node: int = 0) -> Path:
    """Write the order of a host's ranks, and remove what an attempt before left."""
    folder.mkdir(exist_ok=True)
    if folder.is_symlink():  # what the ranks write, and we for them, would be elsewhere
        raise StageError(f"{folder} is a link; the run's files are to be in a folder of its own")
    for stale in (*own_answers(order.job, folder, node), folder / PROGRESS_FILE):
        stale.unlink(missing_ok=True)
    order_path = folder / ORDER_FILE
    private.write(order_path, order.model_dump_json())  # a link that stands there is replaced, not followed
    return order_path


@contextmanager
def training(
    job: TrainingJob,
    run_id: str,
    order_path: Path,
    ctx: Context,
    *,
    gpus: str | None = None,
    meeting: Meeting | None = None,
) -> Iterator[ServerHandle]:
    """The trainer, watched; its recording is written when this is left, and no process of it is left then."""
    from inferbench_tasks.monitors.session import MonitorSession
    from inferbench_tasks.training import launch
    from inferbench_tasks.training.disturbance import MONITORS

    folder, scratch, server = order_path.parent, Scratch(), None
    try:
        server = launch.start(job, run_id, folder, order_path, Path(scratch.path), ctx, gpus, meeting)
        recording = recording_path(folder)
        with MonitorSession(server, recording, device=job.devices.kind.kind, kinds=MONITORS):
            yield server
    finally:
        if server is not None:
            launch.end(server, settings.servers_dir(ctx.data_dir))
        scratch.remove()


def require_answers(answers: Sequence[Path], log_path: str) -> None:
    """StageError where a rank wrote none."""
    if missing := [path.name for path in answers if not path.exists()]:
        raise StageError(f"The run ended without a word of {', '.join(missing)}; see {log_path}")


def rank_cores(job: TrainingJob, devices: Sequence[HeldDevice], node: int = 0) -> tuple[tuple[int, ...], ...]:
    """The cores of each rank, by rank: those of its own device, where several are held, or ``devices.cores`` of them.

    ``node``: the number of this host; ranks of others before it have none here. Empty where all ranks share what their
    worker may use. InputError where there are too few.
    """
    each = job.devices.cores
    if len(devices) < 2 and each is None:
        return ()
    pools = [d.cores for d in devices] if len(devices) > 1 else [tuple(granted())]
    ranks = job.devices.ranks_of_host // len(pools)
    others: tuple[tuple[int, ...], ...] = ((),) * (node * job.devices.ranks_of_host)
    if each is None:
        return (*others, *(pool for pool in pools for _ in range(ranks)))
    if least := [pool for pool in pools if len(pool) < ranks * each]:
        raise InputError(
            f"{ranks} process(es) with {each} core(s) each need {ranks * each}; there are {len(least[0])}: give fewer, "
            "or leave cores out",
            field="devices.cores",
        )
    return (*others, *(pool[at * each : (at + 1) * each] for pool in pools for at in range(ranks)))
