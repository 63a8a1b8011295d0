"""A page of the documentation whose blocks are run as they stand there, section by section."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import yaml
from typer.testing import CliRunner

from inferbench_tasks.cli.main import app

ROOT = Path(__file__).parents[1]
_SECTION = re.compile(r"^## \d+\. (?P<title>[^\n]+)\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"```(?P<kind>\w+)\n(?P<text>.*?)```", re.DOTALL)


def sections(page: Path) -> dict[str, list[tuple[str, str]]]:
    """The title of each numbered section -> its blocks: their kind and text."""
    return {
        match["title"]: [(block["kind"], block["text"]) for block in _BLOCK.finditer(match["text"])]
        for match in _SECTION.finditer(page.read_text(encoding="utf-8"))
    }


def unknown(page: Path) -> list[str]:
    """The page's commands that there are not, or not with these options, each with what is said to it; none is run."""
    shown = [text for blocks in sections(page).values() for kind, text in blocks if kind == "sh"]
    said = []
    for line in "".join(shown).splitlines():
        program, *words = shlex.split(line)
        # The help of a command is shown once its words have been read, and before any of them is looked at.
        done = CliRunner().invoke(app, [*words, "--help"])
        if program != ".venv/bin/inferbench" or done.exit_code:
            said.append(f"{line}\n{done.output}")
    return said


class Page:
    """``folder``: where a user would stand, with the checkout's ``configs`` and the submissions that the page shows.

    ``given``: what names such as ``$URL`` stand for, in all of its blocks.
    """

    def __init__(self, page: Path, folder: Path, given: Mapping[str, str]) -> None:
        self._path = page
        self._folder = folder
        self._given = dict(given)
        self._sections = sections(page)
        (folder / "configs").symlink_to(ROOT / "configs")
        for title in self._sections:
            for text in self.blocks(title, "yaml"):
                (folder / f"{yaml.safe_load(text)['name']}.yaml").write_text(text)

    def blocks(self, section: str, kind: str) -> list[str]:
        """Those of a kind."""
        return [text for found, text in self._sections[section] if found == kind]

    def json(self, section: str, number: int, **given: str) -> Any:
        """What the command prints as JSON; see ``ran``."""
        return json.loads(self.ran(section, number, **given))

    def ran(self, section: str, number: int, **given: str) -> str:
        """The ``number``-th command of a section; what it prints. It runs in this process, for another takes seconds
        to import; ``run``, which takes signals over, does not.
        """
        lines = [line for text in self.blocks(section, "sh") for line in text.splitlines()]
        program, _, words = Template(lines[number]).substitute(self._given | given).partition(" ")
        assert program == ".venv/bin/inferbench", program
        if words.startswith("run "):
            return self._apart(
                [sys.executable, "-m", "inferbench_tasks.cli.main", *shlex.split(words)], given
            )
        done = self.command(words)
        assert done.exit_code == 0, f"{words}\n{done.output}{done.exception}"
        return str(done.stdout)

    def command(self, words: str) -> Any:
        """Any command of ours: ``exit_code``, ``stdout``, ``exception``."""
        with contextlib.chdir(self._folder):
            return CliRunner().invoke(app, shlex.split(words))

    def bash(self, section: str, **given: str) -> str:
        """What the section's block for a shell prints."""
        (text,) = self.blocks(section, "bash")
        return self._apart(["bash", "-euo", "pipefail", "-c", text], given)

    def _apart(self, words: list[str], given: Mapping[str, str]) -> str:
        done = subprocess.run(
            words, env={**os.environ, **self._given, **given}, cwd=self._folder, capture_output=True, text=True,
            timeout=200,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def python(self, section: str, **given: str) -> dict[str, Any]:
        """The names that the section's block in Python leaves."""
        (text,) = self.blocks(section, "python")
        names: dict[str, Any] = {**self._given, **given}
        with contextlib.chdir(self._folder):
            exec(compile(text, str(self._path), "exec"), names)
        return names
