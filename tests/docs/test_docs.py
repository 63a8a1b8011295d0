"""The documentation: builds without a warning, links lead somewhere, and its commands run as they stand there.

A block of commands is fenced with ``sh``. ``<!-- slow -->`` before it: run only with INFERBENCH_DOCS_SLOW=1;
``<!-- not run here: why -->``: needs what a test machine has not. The rest is run in every test.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"(?:<!-- (?P<mark>[^>]*?) -->\n)?```sh\n(?P<text>.*?)```", re.DOTALL)
YAML = re.compile(r"```yaml\n(name: .*?)```", re.DOTALL)
#: What a command of the docs begins with, once its variables are set; ``export`` sets some for those that follow.
PROGRAMS = (
    ".venv/bin/inferbench", ".venv/bin/pytest", "docker", "export", "git", "helm", "kubectl", "make",
    "nvidia-cuda-mps-control", "python",
)  # fmt: skip
VARIABLES = re.compile(r"(?:^[A-Z_]+=\S+ )+")
SLOW = os.environ.get("INFERBENCH_DOCS_SLOW") == "1"


@dataclass(frozen=True)
class Command:
    """One line of a block."""

    page: str
    text: str
    mark: str

    @property
    def slow(self) -> bool:
        return self.mark == "slow"

    @property
    def not_here(self) -> bool:
        return self.mark.startswith("not run here: ")


def commands() -> list[Command]:
    found = []
    for path in sorted(DOCS.rglob("*.md")):
        for block in BLOCK.finditer(path.read_text()):
            mark = block["mark"] or ""
            found += [
                Command(str(path.relative_to(DOCS)), line, mark)
                for line in block["text"].strip().splitlines()
                if line and not line.startswith("#")
            ]
    return found


def run(text: str, folder: Path, *, apart: bool = False) -> subprocess.CompletedProcess[str]:
    """As a user in the checkout would, with a data directory and a .env of the test's own; ``apart``: in a process."""
    words = shlex.split(text)
    if words == ["make", "run"]:
        words = [".venv/bin/inferbench", "run", "configs/submissions/quickstart.yaml"]
    if words[0] == ".venv/bin/inferbench":
        if not apart:
            return in_this_process(words[1:], folder)
        words = [sys.executable, "-m", "inferbench_tasks.cli.main", *words[1:]]
    elif words == ["make", "env"]:
        words = [sys.executable, str(ROOT / "scripts" / "make_env.py")]
    else:
        raise AssertionError(f"the test does not know how to run {text!r}")
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=280)


def in_this_process(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A command without the seconds that a process's imports take."""
    from typer.testing import CliRunner

    from inferbench_tasks.cli.main import app

    with contextlib.chdir(folder):
        result = CliRunner().invoke(app, words)
    return subprocess.CompletedProcess(words, result.exit_code, result.output, str(result.exception or ""))


@pytest.mark.timeout(600)  # two dozen commands; slow ones are whole runs
def test_every_command_of_the_docs_runs(data_dir: Path, tmp_path: Path) -> None:
    """Page by page, in order, in one folder; submissions that a page shows lie there under the name it gives them."""
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    text = (DOCS / "tutorial.md").read_text()
    (tmp_path / "mine.yaml").write_text(YAML.findall(text)[0])
    ran, failed = [], []
    try:
        for command in commands():
            if command.not_here or (command.slow and not SLOW):
                continue
            done = run(command.text, tmp_path, apart=command.slow)
            ran.append(command.text)
            # Exit code 1 is a run that a busy machine made invalid, or a recommendation from no valid run.
            if done.returncode and not (command.slow and done.returncode == 1):
                failed.append(f"{command.page}: {command.text}\n{done.stdout}{done.stderr}"[-1500:])
    finally:
        run(".venv/bin/inferbench perfdb stop", tmp_path)
    assert failed == []
    assert len(ran) >= 10


def test_what_is_not_run_says_why() -> None:
    """A mark is slow, or gives its reason; the first word is a program that exists in the project's world."""
    for command in commands():
        assert command.mark in ("", "slow") or command.not_here, command
        assert VARIABLES.sub("", command.text).split()[0] in PROGRAMS, command


def test_a_how_to_s_commands_are_in_blocks_that_are_run_or_marked() -> None:
    """None is in an indented block, which nobody looks at; of a deployment's none is in a sentence either."""
    programs = {*PROGRAMS, "inferbench", "pip", "curl", "sudo"}
    for path in sorted((DOCS / "how-to").glob("*.md")):
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
        indented = re.findall(r"^(?: {4,}|\t)(\S.*)$", text, re.MULTILINE)
        assert not [line for line in indented if VARIABLES.sub("", line).split()[0] in programs], path
        assert not re.findall(r"`(?:docker (?:compose|build)|kubectl \w+|helm \w+) [^`]+`", text), path


@pytest.mark.parametrize("page", sorted(p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md")))
def test_submissions_shown_are_valid(page: str, tmp_path: Path) -> None:
    """Every whole submission that a page shows passes the reader."""
    from inferbench_tasks.abilities import InstalledAbilities
    from inferbench_tasks.submission.reader import read_submission_text

    known = InstalledAbilities(form_alone=True)
    for name in ("my-model.onnx", "detector.onnx", "bert.onnx", "dev-v1.1.json", "tokenizer.json"):
        (tmp_path / name).touch()
    (tmp_path / "coco").mkdir()
    for text in YAML.findall((DOCS / page).read_text()):
        assert read_submission_text(text, "x.yaml", known, base_dir=tmp_path).name


def test_pictures_are_small_described_and_all_in_use() -> None:
    """Under 600 kB together; each says what it shows to who can't see it, and none lies there unused."""
    pictures = DOCS / "pictures"
    used = re.findall(r"!\[([^\]]*)\]\(pictures/([^)]+)\)", (DOCS / "tutorial.md").read_text())
    assert {name for _, name in used} == {path.name for path in pictures.iterdir()}
    assert all(len(words.split()) >= 4 for words, _ in used)
    assert sum(path.stat().st_size for path in pictures.iterdir()) < 600_000


def test_the_site_builds_without_a_warning_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    """mkdocs --strict: pages, anchors, generated reference; every local address in the HTML exists."""
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    missing = []
    for page in (tmp_path / "site").rglob("*.html"):
        if page.name == "404.html":
            continue
        links = re.findall(r'(?:href|src)="(?!https?:|mailto:|data:)([^"#?]+)', page.read_text())
        missing += [
            f"{page.relative_to(tmp_path)}: {link}"
            for link in links
            if link.startswith("/") or not (page.parent / link).exists()
        ]
    assert missing == []
    assert "inferbench regress run" in (tmp_path / "site" / "reference" / "cli.html").read_text()
    assert "e2e_latency_ms" in (tmp_path / "site" / "reference" / "figures.html").read_text()
