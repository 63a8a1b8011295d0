"""Stage ``train``: all epochs, by the job's trainer, with the monitors running."""

from __future__ import annotations

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.contracts.located import LocatedPath
from inferbench_tasks.stages.base import Context, JobInput, Stage
from inferbench_tasks.training.hosts.facts import SecondHost
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import FOLDER
from inferbench_tasks.training.stages import generate
from inferbench_tasks.training.stages.meet import Output as Met

STAGE = Stage(needs=("generate", "meet"), leased=True)


class Input(JobInput):
    """What is trained on; ``meet``: of a job on two hosts, of which this is the second."""

    job: TrainingJob
    generate: generate.Output
    meet: Met | None = None
    devices: tuple[HeldDevice, ...] = ()


class Output(Handle):
    """``answers``: what each rank of this host wrote, by rank; ``sandbox``: what kept them from the rest of it.

    ``devices``: those of this host that the job held, where a scheduler leased them. ``second``: what this host tells
    of itself where it is the second of two.
    """

    answers: tuple[LocatedPath, ...]
    monitors_path: LocatedPath
    sandbox: str
    devices: tuple[HeldDevice, ...] = ()
    second: SecondHost | None = None


def run(inp: Input, ctx: Context) -> Output:
    """Train; whatever happens, no process is left.

    Raises CancelledError, and StageError with the rank that failed and the end of the log.
    """
    from inferbench_tasks.launchers import records
    from inferbench_tasks.training import launch
    from inferbench_tasks.training.hosts import on_host, second

    job, folder = inp.job, ctx.run_dir(inp.run_id) / FOLDER
    node = 0 if inp.meet is None else 1
    servers_dir = settings.servers_dir(ctx.data_dir)
    records.end_run(servers_dir, inp.run_id)  # of an attempt that was killed
    cores = on_host.rank_cores(job, inp.devices, node)
    order_path = on_host.prepare(generate.order_of(job, inp.generate, cores), folder, node)
    answers, told = on_host.own_answers(job, folder, node), None
    try:
        if inp.meet is not None:
            told, sandbox = second.train(job, inp.run_id, order_path, ctx, inp.meet.first, inp.devices)
        else:
            gpus = launch.gpus(inp.devices)
            with on_host.training(job, inp.run_id, order_path, ctx, gpus=gpus) as server:
                launch.wait(server, folder, ctx)
            on_host.require_answers(answers, server.log_path)
            sandbox = server.sandbox
    finally:
        records.end_run(servers_dir, inp.run_id)
    return Output(
        answers=tuple(map(str, answers)),
        monitors_path=str(on_host.recording_path(folder)),
        sandbox=sandbox,
        devices=inp.devices,
        second=told,
    )
