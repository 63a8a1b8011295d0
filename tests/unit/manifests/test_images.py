"""Frameworks in container images: which version one brings, and what is said where a version is in an image alone."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.contracts.versions import Constraint
from inferbench_tasks.errors import InputError
from inferbench_tasks.manifests.catalogue import BUILT_IN, PERFDB, Catalogue, Entry, built_in
from inferbench_tasks.manifests.images import version_in
from inferbench_tasks.manifests.kinds.framework import FrameworkManifest
from inferbench_tasks.manifests.reading import of_plain
from inferbench_tasks.manifests.runtime import runtime_in_image
from inferbench_tasks.submission.reader import read_submission_data
from tests.unit.submission.test_named_manifests import LOAD, PLAIN, jobs, names, problems, read

MACHINE = platform.machine()
OTHER = "aarch64" if MACHINE != "aarch64" else "x86_64"
ONE, TWO = (f"sha256:{letter * 64}" for letter in "ab")


def framework(version: str, digest: str, arch: str = MACHINE) -> FrameworkManifest:
    image = {"kind": "container", "image": "here/ours:1", "digest": digest, "arch": arch}
    made = of_plain({"kind": "framework", "name": "onnxruntime", "version": version, "runs": [image]}, "mine")
    assert isinstance(made, FrameworkManifest)
    return made


def brought(constraint: str, image: str | None, *manifests: FrameworkManifest) -> str | None:
    found = version_in(manifests, "onnxruntime", Constraint.parse(constraint), image)
    return found.version if found else None


def test_an_image_brings_what_a_manifest_says_of_its_digest() -> None:
    """Whatever it is called; a tag is none. Where any version will do, nobody has to say which it is."""
    ours = framework("1.26.0", ONE), framework("1.25.1", TWO)
    assert brought("~1.26", f"here/ours@{ONE}", *ours) == "1.26.0"
    assert brought(">=1.20", f"elsewhere/copy@{TWO}", *ours) == "1.25.1"
    assert brought("*", ONE, *ours) == "1.26.0"
    assert brought("*", "here/ours:1", *ours) is None and brought("*", None) is None


@pytest.mark.parametrize(
    ("image", "arch", "words"),
    [
        (f"x@{TWO}", MACHINE, f"{MACHINE} with a version that fits: here/ours:1@{ONE}"),
        ("here/ours:1", MACHINE, "which version of onnxruntime the image here/ours:1 brings; images of"),
        (None, MACHINE, "which version of onnxruntime the backend's own image brings"),
        (f"x@{ONE}", OTHER, f"is of {OTHER}, and this machine is {MACHINE}; write a manifest of onnxruntime under"),
    ],
)  # fmt: skip
def test_a_version_that_an_image_does_not_bring_is_refused(image: str | None, arch: str, words: str) -> None:
    """With the images that do, or with what would say so."""
    with pytest.raises(InputError) as refused:
        brought("~1.26", image, framework("1.26.0", ONE, arch), framework("1.25.1", TWO))
    assert words in str(refused.value)


def test_who_writes_to_perfdb_names_no_image() -> None:
    """Neither as what a stack's image brings, nor as help."""
    catalogue = Catalogue([*built_in("framework"), Entry(framework("1.26.0", ONE), PERFDB)])
    with pytest.raises(InputError, match="no manifest says"):
        catalogue.framework_in("onnxruntime", "~1.26", f"here/ours@{ONE}")
    with pytest.raises(InputError) as refused:
        catalogue.runtime_for("onnxruntime", "~1.26")
    assert "here/ours" not in str(refused.value)


def test_of_two_versions_that_claim_one_image_none_is_taken() -> None:
    """Whichever is asked for."""
    for constraint in ("*", "~1.26"):
        with pytest.raises(InputError, match=r"brings 1\.26\.0, 1\.25\.1, and it has one of them"):
            brought(constraint, ONE, framework("1.26.0", ONE), framework("1.25.1", ONE))


def test_a_version_in_conflict_is_refused_in_an_image_too() -> None:
    """As where it is named itself."""
    catalogue = Catalogue(
        [Entry(framework("1.26.0", ONE), BUILT_IN), Entry(framework("1.26.0", TWO), PERFDB)]
    )
    with pytest.raises(InputError, match=r"framework:onnxruntime@1\.26\.0 is in conflict"):
        catalogue.framework_in("onnxruntime", "*", f"here/ours@{ONE}")
    assert catalogue.framework_in("onnxruntime", "*", "here/other") is None


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> Callable[..., None]:
    """Writes a framework's image and a stack under ``configs/manifests``."""
    folder = tmp_path / "configs" / "manifests"
    folder.mkdir(parents=True)
    monkeypatch.setenv("INFERBENCH_CONFIG_DIR", str(tmp_path / "configs"))

    def files(settings: str, needs: str = "onnxruntime~1.26", arch: str = MACHINE) -> None:
        (folder / "image.yaml").write_text(
            "kind: framework\nname: onnxruntime\nversion: 1.26.0\nruns:\n"
            f"  - {{kind: container, image: 'here/ours:1', digest: '{ONE}', arch: {arch}}}\n"
        )
        (folder / "boxed.yaml").write_text(
            "kind: stack\nname: boxed\nversion: 1.0.0\nformat: onnx\nbackend: onnxruntime\n"
            f"framework: {needs}\nsettings: {settings}\n"
        )

    return files


def test_a_stack_in_an_image_is_served_from_it_in_the_version_that_it_brings(write: Any) -> None:
    """And not from what is installed: the record says so, and the server has to tell that version."""
    write(f"{{launcher: container, image: 'here/ours@{ONE}'}}")
    (job,) = jobs(PLAIN + LOAD + "stack: boxed\n")
    assert (job.spec.serve.launcher, job.spec.serve.framework) == ("container", None)
    assert job.spec.serve.image == f"here/ours@{ONE}"
    assert names(job) == {"stack:boxed@1.0.0", "framework:onnxruntime@1.26.0"}
    brought = runtime_in_image(job.spec)
    assert brought is not None and (brought.version, brought.environment) == ("1.26.0", None)


def test_a_stack_in_an_image_of_which_nobody_says_the_version_is_refused(write: Any) -> None:
    """Where it needs one: with the line, and the image that would do; what is installed here does not count."""
    write("{launcher: container}", needs="onnxruntime>=1.20")
    (told,) = problems(PLAIN + LOAD + "stack: boxed\n")
    assert told.startswith("x.yaml:4: stack: needs onnxruntime>=1.20: no manifest says which version")
    assert f"here/ours:1@{ONE} (1.26.0, cpu); name one as image" in told
    (job,) = jobs(PLAIN + LOAD + "stack: onnxruntime@^1\nserve: {launcher: container}\n")
    assert names(job) == {"stack:onnxruntime@1.0.0"} and runtime_in_image(job.spec) is None


@pytest.mark.parametrize("zipped", [False, True])
def test_where_a_stack_that_needs_a_version_runs_is_not_swept(zipped: bool, write: Any) -> None:
    """One image was looked at, and the other one may bring any version: refused with the line, whatever the sweep looks
    like. A stack for each image is swept instead."""
    write("{}")
    serve = f"serve: {{launcher: container, image: 'here/ours@{ONE}'}}\n"
    for column, value in (
        ("serve.image", f"['here/ours@{ONE}', 'here/ours@{TWO}']"),
        ("serve.launcher", "[container, process]"),
        ("serve", f"[{{launcher: container, image: 'here/ours@{TWO}'}}]"),
    ):
        group = f"{{{column}: {value}}}"
        sweep = f"sweep: {{zip: {group}}}\n" if zipped else f"sweep: {group}\n"
        (told,) = problems(PLAIN + LOAD + f"stack: boxed\n{serve}{sweep}")
        assert told.startswith("x.yaml:6: sweep.")
        assert f"{column}: decides which version of onnxruntime runs, and the stack boxed@1.0.0 needs" in told
    write(f"{{launcher: container, image: 'here/ours@{ONE}'}}")
    ours, here = jobs(PLAIN + LOAD + "sweep: {stack: [boxed, onnxruntime]}\n")
    assert "framework:onnxruntime@1.26.0" in names(ours) and len(names(here)) == 2
    submission = read(PLAIN + LOAD + "sweep: {stack: [boxed, onnxruntime]}\n")
    assert read_submission_data(json.loads(submission.model_dump_json()), "again", INSTALLED) == submission


def test_what_one_image_brings_is_said_of_the_jobs_in_that_image_alone(write: Any) -> None:
    """A sweep over images, and one over launchers: what was resolved for one is not said of the other."""
    write("{}", needs="onnxruntime")
    images = f"['here/ours@{ONE}', 'here/ours@{TWO}']"
    serve = f"serve: {{launcher: container, image: 'here/ours@{ONE}'}}\n"
    ours, other = jobs(PLAIN + LOAD + f"stack: boxed\n{serve}sweep: {{serve.image: {images}}}\n")
    assert names(ours) == {"stack:boxed@1.0.0", "framework:onnxruntime@1.26.0"}
    assert names(other) == {"stack:boxed@1.0.0"} and runtime_in_image(other.spec) is None
    here, boxed = jobs(
        PLAIN + LOAD + "stack: onnxruntime@^1\nsweep: {serve.launcher: [process, container]}\n"
    )
    assert len(names(here)) == 2
    assert names(boxed) == {"stack:onnxruntime@1.0.0"} and runtime_in_image(boxed.spec) is None


@pytest.mark.parametrize(
    ("arch", "words"),
    [
        (MACHINE, f"serve: {{launcher: container, image: here/ours:1@{ONE}}} in place of the framework"),
        (OTHER, f"1.26.0 is in a container's image alone, of {OTHER}, and this machine is {MACHINE}"),
    ],
)
def test_a_version_that_an_image_alone_has_is_refused_with_what_to_write(
    arch: str, words: str, write: Any
) -> None:
    """Named by the submission, and needed by a stack that says nothing of a container."""
    write("{}", arch=arch)
    (told,) = problems(PLAIN + LOAD + "serve:\n  framework: onnxruntime@~1.26\n")
    assert told.startswith("x.yaml:5: serve.framework: no version of the framework onnxruntime fits '~1.26'")
    assert words in told
    (told,) = problems(PLAIN + LOAD + "stack: boxed\n")
    assert told.startswith("x.yaml:4: stack: needs onnxruntime~1.26: ") and words in told
