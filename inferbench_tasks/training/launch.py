"""A trainer (torchrun, unless a job names another) with its ranks, from the start to its end."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Sequence
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.backends.base import thread_env
from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.errors import CancelledError, StageError
from inferbench_tasks.launchers import records
from inferbench_tasks.launchers.base import Launch
from inferbench_tasks.launchers.process import ProcessLauncher
from inferbench_tasks.monitors.gpu import BY_BUS, ORDER
from inferbench_tasks.sandbox import Reach, Watch, limits
from inferbench_tasks.sandbox.reach import SHARED_MEMORY
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stores.holdings import FETCHED
from inferbench_tasks.strangers_folder import read
from inferbench_tasks.training.hosts.meeting import Meeting
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import PROGRESS_FILE, Order
from inferbench_tasks.training.trainers.base import trainer_of

log = logging.getLogger(__name__)

POLL_S = 0.1
_MOST_PROGRESS_BYTES = 4096
#: What torchrun's summary says of the rank that failed first.
_RANK = re.compile(r"rank\s*:\s*(\d+)")
#: What torch says in a rank whose loader process was killed.
_LOADER = re.compile(r"DataLoader worker \(pid (\d+)\) is killed by signal: (\w+)")
#: What ended a rank, as Python says it last; torch puts the rank before each line.
_RAISED = re.compile(r"^\[rank(\d+)\]: ([A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b.*)$", re.MULTILINE)
_CODE = re.compile(r"exitcode\s*:\s*(-?\d+)\s*\(pid:\s*(\d+)\)")


def start(
    job: TrainingJob,
    run_id: str,
    folder: Path,
    order_path: Path,
    scratch: Path,
    ctx: Context,
    gpus: str | None = None,
    meeting: Meeting | None = None,
) -> ServerHandle:
    """Start the job's trainer in a sandbox and a session of its own; it is written down first, so that it can be
       ended.
    ``scratch``: a folder with a short path, as loader
       processes make sockets there, whose paths have 107 characters at most. ``gpus``: see there. ``meeting``: where
       the ranks of this host meet those of another.
    """
    devices, order = job.devices, Order.read(order_path)
    program = ("-m", "inferbench_tasks.training.rank_main", str(order_path))
    trainer = trainer_of(job)
    launch = Launch(
        run_id=run_id,
        folder=folder,
        config_path=order_path,
        argv=trainer.command_of_host(job, program, meeting) if meeting else trainer.command(job, program),
        env={
            **thread_env(devices.threads),
            **_visible(job, gpus),
            **(meeting.env() if meeting else {}),
            "TMPDIR": str(scratch),
        },
        # Each rank listens on ports of its own and connects to those of the others; batches of loader processes come
        # through shared memory.
        reach=Reach(
            reads=(
                *(str((ctx.base_dir / file.path).resolve()) for file in job.named_files()),
                *opened(order, folder, ctx.data_dir),
                *image_folders(order, ctx),
            ),
            writes=(SHARED_MEMORY, str(scratch)),
            binds=None,
            connects=None,
            local_sockets=True,
            datagrams=True,
            interfaces=True,
        ),
    )
    return ProcessLauncher().start(launch, settings.servers_dir(ctx.data_dir))


def gpus(devices: Sequence[HeldDevice]) -> str | None:
    """CUDA's names of the GPUs that a job holds, in their order; None where it leased none, or one, which its worker
    sees alone.
    """
    indexes = [device.gpu_index for device in devices if device.gpu_index is not None]
    return ",".join(map(str, indexes)) if len(indexes) > 1 else None


def opened(order: Order, folder: Path, data_dir: Path) -> list[str]:
    """What the ranks read of what ``generate`` made, links resolved: in the run's ``folder``, or, on a host that it was
    brought to, in an artifact there.

    StageError for anything else: where the user brings a module, who named the paths is the user's code.
    """
    made = [Path(path).resolve() for path in order.paths]
    for path in made:
        if not (path.is_relative_to(folder.resolve()) or _is_fetched(path, data_dir)):
            raise StageError(f"What the ranks are to read is none of the run's own files: {path}")
    return [str(path) for path in made]


def _is_fetched(path: Path, data_dir: Path) -> bool:
    return (data_dir / FETCHED).resolve() in path.parents


def image_folders(order: Order, ctx: Context) -> list[str]:
    """The folder of the user's images: that of an artifact which came from another host, or, in place, what the
    submission names. StageError for any other.
    """
    if order.files_folder is None:
        return []
    folder = Path(order.files_folder).resolve()
    named = [(ctx.base_dir / file.path).resolve() for file in order.job.named_files()]
    if not (_is_fetched(folder, ctx.data_dir) or folder in named):
        raise StageError(f"The images are to be read in a folder that the submission does not name: {folder}")
    return [str(folder)]


def _visible(job: TrainingJob, gpus: str | None) -> dict[str, str]:
    if job.devices.kind.kind == "cpu":
        return {"CUDA_VISIBLE_DEVICES": ""}
    return {} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus, ORDER: BY_BUS}


def wait(server: ServerHandle, folder: Path, ctx: Context) -> None:
    """Until the trainer has ended well.

    Raises CancelledError, and StageError with the rank that failed first and the end of the log, or with the limit that
    it went beyond. What it started is
    the caller's to end.
    """
    launcher, watch = ProcessLauncher(), Watch(server.pid, server.uid)
    looked_s = time.monotonic()
    while launcher.alive(server):
        if time.monotonic() - looked_s > limits.EVERY_S:
            looked_s = time.monotonic()
            if reason := watch.memory_or_tasks():
                raise StageError(f"The run {reason}, and was ended")
        if ctx.cancelled():
            raise CancelledError("Cancelled while its ranks ran.")
        _tell(folder, ctx)
        time.sleep(POLL_S)
    text = launcher.exit_text(server)
    if text != "ended with exit code 0":
        end = launcher.log_end(server, 400)
        lines = "\n".join(end.splitlines()[-40:])
        raise StageError(f"The run {first_failure(end) or text}. The end of {server.log_path}:\n{lines}")


def end(server: ServerHandle, servers_dir: Path) -> None:
    """End the trainer with all that it started, and nothing else of its run."""
    if (record := records.find(servers_dir, server)) is not None:
        ProcessLauncher().stop(record)
        (servers_dir / f"{record.token}.json").unlink(missing_ok=True)


def first_failure(log_text: str) -> str | None:
    """Which rank failed first and how, of torchrun's summary, with what it raised and a loader process that was
    killed; None without."""
    _, found, summary = log_text.partition("Root Cause")
    rank, code = _RANK.search(summary), _CODE.search(summary)
    if not found or rank is None or code is None:
        return None
    number = int(code[1])
    how = f"was killed by signal {-number}" if number < 0 else f"ended with exit code {number}"
    if raised := [each[2] for each in _RAISED.finditer(log_text) if each[1] == rank[1]]:
        how += f" ({raised[-1].strip()})"
    if loader := _LOADER.search(log_text):
        how += f", for its loader process (pid {loader[1]}) was killed by signal {loader[2]}"
    return f"failed: rank {rank[1]} (pid {code[2]}) {how}, and torchrun ended the others"


def _tell(folder: Path, ctx: Context) -> None:
    try:
        progress = json.loads(read(folder / PROGRESS_FILE, _MOST_PROGRESS_BYTES, within=folder.parent))
    except FileNotFoundError:
        ctx.progress(0, None, "starting the processes")
        return
    rate = progress["samples_per_s"]
    speed = f", {rate:,.0f} samples/s in each process" if rate else ""
    ctx.progress(progress["epochs"], progress["of"], f"epoch {progress['epochs']} of {progress['of']}{speed}")
