"""The programs that are run beside Python, and what is known of their versions; whether models run in a sandbox."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

from inferbench_tasks import sandbox as limits
from inferbench_tasks import settings
from inferbench_tasks.doctor.base import Advice, Installation
from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.perfdb import mongod
from inferbench_tasks.provider.system import broker

#: The first release of a line that still gets mends.
MAINTAINED = {"mongod": (7, 0), "redis-server": (7, 2)}


def programs(place: Installation) -> Iterator[Advice]:
    """mongod and redis-server, where InferBench starts them."""
    if settings.perfdb_uri() is None:
        yield from _program(
            "mongod", mongod.find, "set INFERBENCH_PERFDB_URI, or PERFDB_MONGOD to a newer one"
        )
    yield from _program(
        "redis-server", broker.program, "set INFERBENCH_BROKER_URL, or install a newer one on PATH"
    )


def sandbox(place: Installation) -> Iterator[Advice]:
    """What keeps the code of models, in what makes, converts and serves them, from the rest of the machine."""
    try:
        state = limits.state()
    except InputError as error:
        yield Advice(check="sandbox", level="finding", what=str(error), remedy=f"unset {limits.SANDBOX}")
        return
    kept = limits.setting() != "off" and "not kept in" not in state
    yield Advice(
        check="sandbox", level="ok" if kept else "note", what=f"what makes, converts and serves models: {state}",
        remedy="" if kept else f"Linux 6.12 or newer with Landlock, and {limits.SANDBOX}=require",
    )  # fmt: skip


def _program(name: str, find: object, remedy: str) -> Iterator[Advice]:
    assert callable(find)
    try:
        path = str(find())
        text = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=30, check=False
        ).stdout
    except (InferBenchError, OSError, subprocess.TimeoutExpired) as error:
        yield Advice(check="programs", level="note", what=f"{name} is not asked: {error}")
        return
    version = re.search(r"v=?(\d+)\.(\d+)\.(\d+)", text)
    if version is None:
        yield Advice(check="programs", level="note", what=f"{path} does not say its version")
    elif (int(version[1]), int(version[2])) < MAINTAINED[name]:
        yield Advice(
            check="programs", level="note",
            what=f"{name} {version[0].lstrip('v=')} gets no mends any more; it is on loopback and asks for a login",
            remedy=remedy,
        )  # fmt: skip
    else:
        yield Advice(check="programs", level="ok", what=f"{name} {version[0].lstrip('v=')}")
