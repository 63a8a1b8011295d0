"""The command line as a whole."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from inferbench_tasks.cli.main import COMMANDS, LazyGroup, main
from inferbench_tasks.errors import InputError, StageError

group = LazyGroup()


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)


def commands() -> Iterator[tuple[list[str], Any]]:
    """Every command and subcommand, as it is typed."""
    for name in COMMANDS:
        command = group.get_command(None, name)
        yield [name], command
        for sub, inner in getattr(command, "commands", {}).items():
            yield [name, sub], inner


@pytest.mark.parametrize(
    ("path", "command"), list(commands()), ids=lambda v: " ".join(v) if isinstance(v, list) else ""
)
def test_every_command_has_help(path: list[str], command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`inferbench COMMAND [SUBCOMMAND] --help` says how it is used and what each option does, brackets and all."""
    assert run(*path, "--help") == 0
    out = "".join(capsys.readouterr().out.split())
    assert "Usage:inferbench" in out
    for option in command.params:
        assert "".join((getattr(option, "help", None) or "").split()) in out


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`inferbench --help` lists all of them with a line each."""
    assert run("--help") == 0
    out = capsys.readouterr().out
    assert all(command in out for command in COMMANDS)


def test_an_unknown_command_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and what could have been meant."""
    assert run("bogus") == 2
    assert "No such command 'bogus'; known: validate" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "code"), [(InputError("bad"), 2), (StageError("bad"), 1)])
def test_an_error_becomes_its_exit_code(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad input ends with 2, a failure with 1; the message is on stderr, without a traceback."""

    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(typer.main, "get_command", lambda app: fail)
    assert run("run") == code
    captured = capsys.readouterr()
    assert captured.err == "bad\n"
    assert captured.out == ""


def test_help_imports_no_command() -> None:
    """`inferbench --help` is quick: it imports none of what the commands need."""
    code = (
        "import sys\nfrom inferbench_tasks.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'numpy', 'airflow', 'pymongo', 'pandas'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip().endswith("[]")
