"""Where the installation's secrets can be seen: in environments of servers under test, and in command lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import psutil

from inferbench_tasks.doctor.base import Advice, Installation, environment, name_of
from inferbench_tasks.perfdb import credentials
from inferbench_tasks.perfdb import folder as folders


def secrets(place: Installation) -> Iterator[Advice]:
    """No server under test has a secret in its environment, and no process has one in its command line."""
    value_by_name = values(place)
    good = True
    for process in place.servers:
        for name in sorted(seen(" ".join(environment(process).values()), value_by_name)):
            good = False
            yield Advice(
                check="secrets", level="finding",
                what=f"{name_of(process)}, which runs a model, has the secret {name} in its environment",
                remedy="end the run; report it as SECURITY.md says",
            )  # fmt: skip
    for process in place.processes:
        for name in sorted(seen(_command(process), value_by_name)):
            good = False
            yield Advice(
                check="secrets", level="finding",
                what=f"{name_of(process)} has the secret {name} in its command line, which every user can read",
                remedy="end the process; report it as SECURITY.md says",
            )  # fmt: skip
    if good:
        processes = f"{len(place.servers)} process(es) of servers, {len(place.processes)} in all"
        yield Advice(check="secrets", level="ok", what=f"no secret where it could be seen ({processes})")


def values(place: Installation) -> dict[str, str]:
    """The installation's secrets by name."""
    value_by_name: dict[str, str] = {}
    for name in ("secrets.json", "passwords.json"):
        path = place.system.home / name
        if path.exists():
            value_by_name |= {f"{name}:{key}": value for key, value in json.loads(path.read_text()).items()}
    if login := credentials.read(folders.place(place.data_dir)):
        value_by_name |= {"perfdb/key": login.key, "PerfDB's password": login.password}
    return value_by_name


def seen(text: str, value_by_name: Mapping[str, str]) -> set[str]:
    """The names of the secrets that stand in a text."""
    return {name for name, value in value_by_name.items() if value and value in text}


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""
