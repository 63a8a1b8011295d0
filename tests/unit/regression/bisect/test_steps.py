"""Lists of steps: commits, versions, images, files; and what is offered after a night."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.regression.bisect import steps
from inferbench_tasks.regression.bisect.build import Builder, UnbuildableError
from inferbench_tasks.regression.bisect.offer import offer
from inferbench_tasks.regression.bisect.steps import Step
from inferbench_tasks.regression.sides import Side


def git(repo: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repo), "-c", "user.name=n", "-c", "user.email=n@example.org", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Four commits, tagged v0 to v3; each changes model.py, and v2 has no load.yaml."""
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    for number in range(4):
        (folder / "model.py").write_text(f"VALUE = {number}\n")
        (folder / "load.yaml").write_text("name: x\n")
        if number == 2:
            (folder / "load.yaml").unlink()
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"{number}")
        git(folder, "tag", f"v{number}")
    return folder


def test_commits_are_those_after_the_good_one(repo: Path) -> None:
    """In their order, both ends included; ends the wrong way round and the same one are refused."""
    chosen = steps.commits(repo, "v0", "v3")
    assert [step.commit for step in chosen] == [git(repo, "rev-parse", f"v{n}") for n in range(4)]
    with pytest.raises(InputError, match="no ancestor"):
        steps.commits(repo, "v3", "v0")
    with pytest.raises(InputError, match="same commit"):
        steps.commits(repo, "v1", "v1")
    with pytest.raises(InputError, match="rev-parse"):
        steps.commits(repo, "nothing", "v1")


def test_versions_are_in_their_order() -> None:
    """1.9 comes before 1.10; a downgrade is walked backwards; others are left out."""
    known = ["1.10", "1.9", "2.0", "1.2"]
    assert [s.name for s in steps.versions("x", "1.9", "2.0", known)] == ["x 1.9", "x 1.10", "x 2.0"]
    assert [s.packages for s in steps.versions("x", "1.10", "1.2", known)] == [
        ("x==1.10",), ("x==1.9",), ("x==1.2",),
    ]  # fmt: skip
    with pytest.raises(InputError, match="no name of a package"):
        steps.versions("x; rm", "1", "2", known)
    with pytest.raises(InputError, match="Invalid version"):
        steps.versions("x", "old", "2", known)


def test_a_list_is_checked_with_its_place(tmp_path: Path) -> None:
    """An unknown key, a name that stands twice and a single step are refused; trees are relative to the file."""
    file = tmp_path / "steps.yaml"
    file.write_text("- {tree: a}\n- {tree: b, env: {X: '1'}}\n")
    assert [step.tree for step in steps.read_list(file)] == [str(tmp_path / "a"), str(tmp_path / "b")]
    for text, message in (
        ("- {tree: a}\n- {tre: b}\n", "step 1: tre: "),
        ("- {tree: a}\n- {tree: a}\n", "twice"),
        ("- {tree: a}\n", r"1 step\(s\)"),
        ("x: 1\n", "no list"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=message):
            steps.read_list(file)


def test_a_part_of_a_list_is_chosen_by_names() -> None:
    """The good end first."""
    listed = steps.images(["a@sha256:1", "a@sha256:2", "a@sha256:3"])
    assert [step.image for step in steps.from_to(listed, "a@sha256:2", None)] == ["a@sha256:2", "a@sha256:3"]
    with pytest.raises(InputError, match="none of the steps"):
        steps.from_to(listed, "b", None)
    with pytest.raises(InputError, match="before"):
        steps.from_to(listed, "a@sha256:3", "a@sha256:2")


@pytest.fixture
def builder(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    side = Side(id="a" * 16, tree="/inferbench", python="python")
    monkeypatch.setattr("inferbench_tasks.regression.bisect.build.side_of", lambda *_: side)
    return Builder(
        repo / "load.yaml", tmp_path / "bisect", tmp_path, command="test $(cat model.py | tail -c 2) -lt 3"
    )


def test_a_commit_is_built_beside_the_repository(repo: Path, builder: Builder) -> None:
    """Its own files and submission, first on the path; the checkout itself stays; one that fails to build says why."""
    first, second, without, failing = steps.commits(repo, "v0", "v3")
    build = builder.build(second)
    tree = build.file.parent
    assert (tree / "model.py").read_text() == "VALUE = 1\n" and tree != repo
    assert build.env["PYTHONPATH"] == f"{tree}:/inferbench"
    assert (repo / "model.py").read_text() == "VALUE = 3\n"
    assert builder.build(first).side.id != build.side.id
    with pytest.raises(UnbuildableError, match="load.yaml is not there"):
        builder.build(without)
    with pytest.raises(UnbuildableError, match="the build command failed"):
        builder.build(failing)
    assert builder.build(second) == build


def test_an_image_is_put_into_the_submission(repo: Path, builder: Builder) -> None:
    """A copy beside it, which is no night of its own."""
    (repo / "load.yaml").write_text("name: x\nserve: {backend: triton, launcher: docker}\n")
    file = builder.build(Step(name="new", image="triton@sha256:2")).file
    assert file.parent == repo and file.suffix != ".yaml"
    assert "image: triton@sha256:2" in file.read_text() and "launcher: docker" in file.read_text()


def test_the_command_that_is_offered_names_commits_and_figure() -> None:
    """15.25: of a confirmed change between two commits; none where both sides are of one commit."""
    start = {"figure": "p95_ms", "good": "a" * 40, "bad": "b" * 40}
    assert offer({"bisect": start}, "my nights/x.yaml") == (
        f"inferbench regress bisect 'my nights/x.yaml' --good {'a' * 12} --bad {'b' * 12} --figure p95_ms"
    )
    small = {**start, "job": 2, "detect_percent": 1.25}
    assert str(offer({"bisect": small}, "x.yaml")).endswith(" --figure p95_ms --job 2 --detect 1.25")
    assert offer({"bisect": None}, "x.yaml") is None and offer({}, "x.yaml") is None
