"""A real PostgreSQL on a free port, in a folder of its own: Airflow's metadata where several schedulers share it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.load_servers import free_port

_USER = "airflow"


def why_not() -> str | None:
    """Why no PostgreSQL can be started here, with the remedy; None if one can."""
    if _programs() is None:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    if os.geteuid() == 0 and _other_user() is None:
        return "PostgreSQL refuses to run as root, and there is no user postgres or nobody"
    return None


@contextmanager
def postgres() -> Iterator[str]:
    """An empty database while this lasts: its URL as SQLAlchemy takes it. Nothing of it is left afterwards."""
    programs, user = _programs(), _other_user() if os.geteuid() == 0 else None
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="inferbench-postgres-"))
    if user is not None:
        shutil.chown(folder, user)
    port = free_port()

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [programs / program, *arguments],
            user=user, cwd=folder, env={"PATH": os.defpath, "LC_ALL": "C"}, check=True, capture_output=True,
        )  # fmt: skip

    run("initdb", "--pgdata", f"{folder}/data", "--username", _USER, "--auth", "trust", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    run("pg_ctl", "start", "-w", "-D", f"{folder}/data", "-l", f"{folder}/log", "-o", options)
    try:
        run("createdb", "--host", "127.0.0.1", "--port", str(port), "--username", _USER, _USER)
        yield f"postgresql+psycopg2://{_USER}@127.0.0.1:{port}/{_USER}"
    finally:
        run("pg_ctl", "stop", "-w", "-D", f"{folder}/data", "-m", "immediate")
        shutil.rmtree(folder)


def _programs() -> Path | None:
    """The folder with ``initdb``: on the path, or where Debian puts it, the newest version first."""
    if initdb := shutil.which("initdb"):
        return Path(initdb).resolve().parent
    versions = sorted(
        (path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()),
        key=lambda path: float(path.parent.name),
    )
    return versions[-1] if versions else None


def _other_user() -> str | None:
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in known), None)
