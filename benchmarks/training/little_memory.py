"""Ranks whose data does not fit beside them into their memory: what is thrown away is read again, at a stated price.

Three things make the pressure one of known size, wherever it is run:

* The limit follows what the processes hold themselves, so that a stated share of the data has room, and not what a
  version of torch leaves of a number of bytes.
* The data lies on a disk of its own (a loop device in a mount namespace that ends with the training) that reads ahead
  so little that a fault brings the sample it wants: the read-ahead of a machine's disk may be 8 MB, which turns a few
  pages too few into gigabytes of reads.
* That disk answers so many reads a second: a step can lose no more than its batch by this rate.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from benchmarks.training.injections import Impossible, beside, cgroup, throttled, unshare
from inferbench_tasks.training import cold
from inferbench_tasks.training.stages import generate

_CLONE_NEWNS = 0x00020000
#: Of the disk, KiB: a sample of 12 KiB is four pages, which lie behind the one that is asked for.
READ_AHEAD_KIB = 32
#: Room for the file system's own.
_SLACK_BYTES = 64 << 20
#: How often the limit follows, s, and of so many looks the most that is held counts: batches come and go.
_EVERY_S, _LOOKS = 0.1, 10


@contextmanager
def little_memory(data: generate.Output, share: float, reads_per_s: int) -> Iterator[None]:
    """``share`` of the data has room beside what the training's processes hold; the rest is read again, by
    ``reads_per_s``.
    """
    size = os.path.getsize(data.images_path)
    with tempfile.TemporaryDirectory(dir=Path(data.images_path).parent) as folder, ExitStack() as stack:
        device = stack.enter_context(_own_disk(Path(data.images_path), Path(folder)))
        cold.drop([data.images_path])
        cold.warm(_libraries())  # pages count as theirs who read them first: these are not the training's
        group = stack.enter_context(cgroup("memory"))
        stack.enter_context(throttled(device, "read_iops", reads_per_s))
        stack.enter_context(following(group, int(share * size)))
        yield


@contextmanager
def _own_disk(path: Path, folder: Path) -> Iterator[int]:
    """The device's number. ``path`` is a file on it meanwhile, for this thread and what it starts: the mounts are of a
    namespace that ends with them at the latest, and the loop device with its mount.
    """
    try:
        unshare(_CLONE_NEWNS)
    except OSError as error:
        raise Impossible(f"no mount namespace can be made: {error}") from error
    image, mounted = folder / "disk", folder / "mounted"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(path.stat().st_size + _SLACK_BYTES)
    _run("mount", "--make-rprivate", "/")
    _run("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", str(image))
    with _mounted("-o", "loop,noatime", str(image), str(mounted)):
        device = os.stat(mounted).st_dev
        loop = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
        _run(
            "losetup", "--direct-io=on", f"/dev/{loop.resolve().name}"
        )  # else its pages are kept a second time
        (loop / "queue" / "read_ahead_kb").write_text(str(READ_AHEAD_KIB))
        copy = Path(shutil.copy(path, mounted))
        with copy.open("rb") as file:
            os.fsync(file.fileno())  # pages that are not written yet can't be dropped
        with _mounted("--bind", str(copy), str(path)):
            yield device


@contextmanager
def _mounted(*words: str) -> Iterator[None]:
    """``words``: of mount(8), where last."""
    _run("mount", *words)
    try:
        yield
    finally:
        _run("umount", "--lazy", words[-1])  # a helper of the training may still be there


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Impossible(f"{' '.join(command)}: {done.stderr.strip()}")


def _libraries() -> list[str]:
    spec = find_spec("torch")
    folders = spec.submodule_search_locations if spec else None
    return [str(path) for folder in folders or () for path in Path(folder).rglob("*.so*")]


@contextmanager
def following(group: Path, room_bytes: int) -> Iterator[None]:
    """The group's limit is what its processes hold and ``room_bytes``, again and again."""
    held: deque[int] = deque(maxlen=_LOOKS)

    def follow(ended: threading.Event) -> None:
        while not ended.wait(_EVERY_S):
            held.append(held_bytes(group))
            try:
                (group / "memory.limit_in_bytes").write_text(str(max(held) + room_bytes))
            except OSError:
                continue  # EBUSY: it grows faster than its pages can be thrown away; the next limit has room for it

    with beside(follow):
        yield


def held_bytes(group: Path) -> int:
    """What the group's processes hold that no disk has: all but its page cache."""
    stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    usage = int((group / "memory.usage_in_bytes").read_text())
    return usage - int(stat["cache"])
