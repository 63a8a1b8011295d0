"""What only its owner can read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from inferbench_tasks import private, settings

NOBODY = 65534


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_secret_file_is_its_owners_from_the_first_byte_on(tmp_path: Path) -> None:
    """Mode 600 whatever the umask is, also where a file of another mode was before; nothing else is left."""
    path = tmp_path / "secrets.json"
    path.write_text("old")
    path.chmod(0o644)
    private.write(path, "new")
    assert (path.read_text(), mode(path), list(tmp_path.iterdir())) == ("new", 0o600, [path])


def test_a_data_directory_of_an_earlier_version_is_closed(tmp_path: Path) -> None:
    """Folders that other users could enter are their owner's alone after the next command that writes."""
    data = tmp_path / "data"
    for folder in (data, data / "runs", data / "system"):
        folder.mkdir(mode=0o755)
    assert private.open_to_others(data) == [data, *data.iterdir()]
    settings.writable(data)
    assert {mode(path) for path in (data, *data.iterdir())} == {0o700}
    assert private.open_to_others(data) == []


def test_a_directory_with_other_things_keeps_its_mode(tmp_path: Path) -> None:
    """A home or /tmp as data directory: only what InferBench put there is closed."""
    tmp_path.chmod(0o1777)
    (tmp_path / "of somebody else").mkdir(mode=0o755)
    (tmp_path / "runs").mkdir(mode=0o755)
    settings.writable(tmp_path)
    assert (mode(tmp_path), mode(tmp_path / "of somebody else"), mode(tmp_path / "runs")) == (
        0o777, 0o755, 0o700,
    )  # fmt: skip


def test_a_link_keeps_the_mode_of_what_it_names(tmp_path: Path) -> None:
    """A cache on another disk may be others' too: whoever linked it there decides."""
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    data = private.folder(tmp_path / "data")
    (data / "cache").symlink_to(shared)
    settings.writable(data)
    assert mode(shared) == 0o755


def test_what_a_command_writes_is_private() -> None:
    """Every process of the command line, and what it starts, makes files that only its user can read."""
    code = (
        "import os, inferbench_tasks.cli.main as m, typer\n"
        "m.COMMANDS.clear()\n"
        "m.app.command('umask')(lambda: typer.echo(oct(os.umask(0))))\n"
        "m.LazyGroup.resolve_command = lambda self, ctx, args: ('umask', self.commands['umask'], [])\n"
        "m.main(['umask'])\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, umask=0o022
    )
    assert process.stdout.strip() == "0o77"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_reads_nothing(tmp_path: Path) -> None:
    """A process of another uid reads no file below a data directory, also one whose own mode would let it."""
    for parent in (tmp_path, *tmp_path.parents[:-2]):
        parent.chmod(0o755)
    data = tmp_path / "data"
    (data / "runs" / "x").mkdir(parents=True, mode=0o755)
    path = data / "runs" / "x" / "samples"
    path.write_text("figures")
    path.chmod(0o644)
    assert _cat(path).returncode == 0
    settings.writable(data)
    assert "Permission denied" in _cat(path).stderr


def _cat(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/cat", str(path)], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", capture_output=True,
        text=True, check=False,
    )  # fmt: skip
