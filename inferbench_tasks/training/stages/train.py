"""Stage ``train``: all epochs, by the job's trainer, with the monitors running."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.artifacts.scratch import Scratch
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.cores import granted
from inferbench_tasks.errors import InputError, StageError
from inferbench_tasks.stages.base import Context, JobInput, Stage
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import FOLDER, ORDER_FILE, PROGRESS_FILE, answer_path
from inferbench_tasks.training.stages import generate

STAGE = Stage(needs=("generate",), leased=True)


class Input(JobInput):
    """What is trained on."""

    job: TrainingJob
    generate: generate.Output
    devices: tuple[HeldDevice, ...] = ()


class Output(Handle):
    """``answers``: what each rank wrote, by rank; ``sandbox``: what kept them from the rest of the machine.

    ``devices``: those that the job held, where a scheduler leased them.
    """

    answers: tuple[str, ...]
    monitors_path: str
    sandbox: str
    devices: tuple[HeldDevice, ...] = ()


def run(inp: Input, ctx: Context) -> Output:
    """Train; whatever happens, no process is left.

    Raises CancelledError, and StageError with the rank that failed and the end of the log.
    """
    from inferbench_tasks.launchers import records
    from inferbench_tasks.monitors.session import MonitorSession
    from inferbench_tasks.training import launch
    from inferbench_tasks.training.disturbance import MONITORS

    folder = ctx.run_dir(inp.run_id) / FOLDER
    folder.mkdir(exist_ok=True)
    servers_dir = settings.servers_dir(ctx.data_dir)
    records.end_run(servers_dir, inp.run_id)  # of an attempt that was killed
    answers = [answer_path(folder, rank) for rank in range(inp.job.devices.ranks)]
    for stale in (*answers, folder / PROGRESS_FILE):
        stale.unlink(missing_ok=True)
    order_path = folder / ORDER_FILE
    order = generate.order_of(inp.job, inp.generate, rank_cores(inp.job, inp.devices))
    order_path.write_text(order.model_dump_json())
    monitors_path = folder / "monitors.parquet"
    scratch = Scratch()
    try:
        server = launch.start(
            inp.job, inp.run_id, folder, order_path, Path(scratch.path), ctx, launch.gpus(inp.devices)
        )
        with MonitorSession(server, monitors_path, device=inp.job.devices.kind.kind, kinds=MONITORS):
            launch.wait(server, folder, ctx)
    finally:
        records.end_run(servers_dir, inp.run_id)
        scratch.remove()
    if missing := [path.name for path in answers if not path.exists()]:
        raise StageError(f"The training ended without a word of {', '.join(missing)}; see {server.log_path}")
    return Output(
        answers=tuple(map(str, answers)),
        monitors_path=str(monitors_path),
        sandbox=server.sandbox,
        devices=inp.devices,
    )


def rank_cores(job: TrainingJob, devices: Sequence[HeldDevice]) -> tuple[tuple[int, ...], ...]:
    """The cores of each rank, by rank: those of its own device, where several are held, or ``devices.cores`` of them.

    Empty where all ranks share what their worker may use. InputError where there are too few.
    """
    each = job.devices.cores
    if len(devices) < 2 and each is None:
        return ()
    pools = [d.cores for d in devices] if len(devices) > 1 else [tuple(granted())]
    ranks = job.devices.ranks // len(pools)
    if each is None:
        return tuple(pool for pool in pools for _ in range(ranks))
    if least := [pool for pool in pools if len(pool) < ranks * each]:
        raise InputError(
            f"{ranks} process(es) with {each} core(s) each need {ranks * each}; there are {len(least[0])}: give fewer, "
            "or leave cores out",
            field="devices.cores",
        )
    return tuple(pool[at * each : (at + 1) * each] for pool in pools for at in range(ranks))
