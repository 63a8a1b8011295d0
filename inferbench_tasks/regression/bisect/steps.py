"""The steps between the good and the bad end, in their order: commits, versions of a package, images, or a list.

A step is data: what has to be different for it. ``build`` makes it real.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inferbench_tasks.contracts.spec import IMAGE_PATTERN
from inferbench_tasks.errors import InputError
from inferbench_tasks.problem import field_problems

Image = Annotated[str, Field(pattern=IMAGE_PATTERN)]


class Step(BaseModel):
    """``commit`` of ``repo``, or ``tree``: a checkout; ``packages``: requirements, installed over the environment's own
    (without their dependencies); ``image``: the server's container; ``env``: variables of the run and its server.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    repo: str | None = None
    commit: str | None = None
    tree: str | None = None
    python: str | None = None
    packages: tuple[str, ...] = ()
    image: Image | None = None
    env: dict[str, str] = {}


def commits(repo: Path, good: str, bad: str) -> list[Step]:
    """The good commit and those that came after it up to the bad one, each merge as one step (first parents).

    Raises InputError if the good one is no ancestor of the bad one.
    """
    first, last = (git(repo, "rev-parse", "--verify", f"{name}^{{commit}}").strip() for name in (good, bad))
    if first == last:
        raise InputError(f"--good and --bad are the same commit, {first[:12]}: there is nothing between.")
    if git(repo, "merge-base", first, last).strip() != first:
        raise InputError(f"--good {good} is no ancestor of --bad {bad} in {repo}.")
    between = git(repo, "rev-list", "--reverse", "--first-parent", f"{first}..{last}").split()
    root = git(repo, "rev-parse", "--show-toplevel").strip()
    return [Step(name=sha[:12], repo=root, commit=sha) for sha in (first, *between)]


def git(repo: Path, *arguments: str) -> str:
    """What git prints; raises InputError with what it complains of."""
    try:
        command = ["git", "-C", str(repo), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    except FileNotFoundError as error:
        raise InputError("git is not installed here, and commits are git's.") from error
    except subprocess.SubprocessError as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        raise InputError(f"git {arguments[0]} in {repo}: {reason[-500:]}") from error


def versions(package: str, good: str, bad: str, known: Sequence[str] = ()) -> list[Step]:
    """The versions of a package from one to the other, as the package index has them or as ``known`` names them."""
    from packaging.version import InvalidVersion, Version

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", package):
        raise InputError(f"--package {package!r} is no name of a package.")
    try:
        first, last = Version(good), Version(bad)
        listed = {Version(text) for text in known or _on_index(package)} | {first, last}
    except InvalidVersion as error:
        raise InputError(f"{package}: {error}") from error
    low, high = sorted((first, last))
    if low == high:
        raise InputError(
            f"--good and --bad are the same version of {package}, {low}: there is nothing between."
        )
    between = sorted((v for v in listed if low <= v <= high), reverse=first > last)
    return [Step(name=f"{package} {version}", packages=(f"{package}=={version}",)) for version in between]


def _on_index(package: str) -> list[str]:
    command = [sys.executable, "-m", "pip", "index", "versions", package, "--disable-pip-version-check"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    listed = re.search(r"^Available versions: (.+)$", process.stdout, re.MULTILINE)
    if not listed:
        raise InputError(
            f"pip does not say which versions of {package} there are ({process.stderr.strip()[-300:]}); "
            "name them: --versions 1.0,1.1,1.2"
        )
    return listed[1].split(", ")


def images(names: Sequence[str]) -> list[Step]:
    """Images (best by digest, ``name@sha256:...``) in the order in which they were made."""
    return listed([{"image": name} for name in names], "--image")


def read_list(path: Path) -> list[Step]:
    """A YAML list of steps, the good end first; paths are relative to its folder."""
    try:
        rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read as a list of steps: {error}") from error
    if not isinstance(rows, list):
        raise InputError(f"{path} holds no list of steps (- tree: ..., - image: ..., - packages: [...]).")
    for row in rows:
        for key in ("tree", "repo"):
            if isinstance(row, dict) and isinstance(row.get(key), str):
                row[key] = str((path.absolute().parent / row[key]).resolve())
    return listed(rows, str(path))


def listed(rows: Sequence[Any], source: str) -> list[Step]:
    """Checked, each with a name of its own; raises InputError."""
    steps = []
    for number, row in enumerate(rows):
        try:
            step = Step.model_validate(row)
        except ValidationError as error:
            raise InputError(f"{source}, step {number}: {field_problems(error)[0]}") from error
        name = step.name or step.commit or step.image or " ".join(step.packages) or Path(step.tree or "").name
        steps.append(step.model_copy(update={"name": name or f"step {number}"}))
    names = [step.name for step in steps]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InputError(
            f"{source}: {', '.join(sorted(twice))} stands there twice; steps need names of their own."
        )
    if len(steps) < 2:
        raise InputError(
            f"{source}: {len(steps)} step(s); there have to be a good one and a bad one at least."
        )
    return steps


def from_to(steps: Sequence[Step], good: str | None, bad: str | None) -> list[Step]:
    """The part of a list from one name to the other; by default all of it."""
    names = [step.name for step in steps]
    places = []
    for option, name, default in (("--good", good, 0), ("--bad", bad, len(names) - 1)):
        if name is not None and name not in names:
            raise InputError(f"{option} {name} is none of the steps: {', '.join(names)}")
        places.append(default if name is None else names.index(name))
    if places[0] >= places[1]:
        raise InputError(f"--good {names[places[0]]} has to come before --bad {names[places[1]]}.")
    return list(steps[places[0] : places[1] + 1])
