"""Versions of runtimes by their manifests: where each runs, and what a manifest may say of its packages."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.manifests.catalogue import PERFDB, Catalogue, Entry, built_in
from inferbench_tasks.manifests.kinds.framework import FrameworkManifest
from inferbench_tasks.manifests.lock import planned
from inferbench_tasks.manifests.reading import of_plain
from inferbench_tasks.manifests.runtime import named_runtime
from inferbench_tasks.submission.schema import JobSpec, ServeSpec

HASH = "--hash=sha256:" + "a" * 64
INSTALLED = version("onnxruntime")


def framework(*packages: str, number: str = "1.26.0", **place: Any) -> FrameworkManifest:
    own = {"kind": "environment", "name": "onnxruntime-1.26", "packages": list(packages), **place}
    made = of_plain({"kind": "framework", "name": "onnxruntime", "version": number, "runs": [own]}, "mine")
    assert isinstance(made, FrameworkManifest)
    return made


def test_a_job_that_names_no_version_has_what_is_installed() -> None:
    """Nothing is looked up for it; the installed version by its name needs no environment."""
    assert named_runtime(ServeSpec()) is None
    here = named_runtime(ServeSpec(framework=f"onnxruntime@{INSTALLED}"))
    assert here is not None and (here.version, here.environment) == (INSTALLED, None)


def test_an_older_one_has_an_environment_of_its_pins() -> None:
    """Called by them: another hash, or another Python, is another environment."""
    old = named_runtime(ServeSpec(framework="onnxruntime@~1.27"))
    assert old is not None and old.environment is not None
    assert old.words == "onnxruntime 1.27.0" and old.environment.name == "onnxruntime-1.27"
    assert all(line.startswith("onnxruntime==1.27.0 --hash=sha256:") for line in old.environment.pinned)
    folder = old.environment.folder_name
    assert (
        folder
        == type(old.environment)(
            "onnxruntime-1.27", ("onnxruntime==1.27.0",), 1, pinned=old.environment.pinned
        ).folder_name
    )
    other = type(old.environment)("onnxruntime-1.27", ("onnxruntime==1.27.0",), 1, pinned=(HASH,))
    assert other.folder_name != folder


def test_a_file_brings_a_version_and_perfdb_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who writes to PerfDB does not decide what is installed here; the newest of those that count is taken."""
    folder = tmp_path / "configs" / "manifests"
    folder.mkdir(parents=True)
    monkeypatch.setenv("INFERBENCH_CONFIG_DIR", str(tmp_path / "configs"))
    stored = Entry(framework(f"onnxruntime==1.26.0 {HASH}"), PERFDB)
    with pytest.raises(InputError, match=rf"fits '~1\.26'; there are: {INSTALLED}, 1\.27\.0"):
        Catalogue([*built_in("framework"), stored]).runtime_for("onnxruntime", "~1.26")
    (folder / "mine.yaml").write_text(
        "kind: framework\nname: onnxruntime\nversion: 1.26.0\nruns:\n  - kind: environment\n"
        f"    name: mine\n    packages: ['onnxruntime==1.26.0 {HASH}']\n"
    )
    own = named_runtime(ServeSpec(framework="onnxruntime@<1.27"))
    assert own is not None and own.environment is not None
    assert (own.version, own.environment.name) == ("1.26.0", "mine")


def test_packages_are_pinned_lines_and_nothing_else() -> None:
    """No option, address, path, marker, or package without a hash; the framework's own version is among them."""
    good = framework(f"onnxruntime==1.26.0 \\\n    {HASH} \\\n    {HASH}", f"flatbuffers==25.2.10 {HASH}")
    assert good.pinned is not None and good.pinned.packages[0] == f"onnxruntime==1.26.0 {HASH} {HASH}"
    for line in (
        "onnxruntime==1.26.0",
        f"onnxruntime>=1.26.0 {HASH}",
        f"--index-url=https://example.org {HASH}",
        f"-r other.txt {HASH}",
        f"onnxruntime @ https://example.org/x.whl {HASH}",
        f"./onnxruntime==1.26.0 {HASH}",
        f"onnxruntime==1.26.0 {HASH} --pre",
        f"onnxruntime==1.26.0 ; python_version>'3' {HASH}",
        f"onnxruntime==1.26.0 {HASH}\nflatbuffers==25.2.10 {HASH}",
    ):
        with pytest.raises(
            SubmissionError, match=r"runs\[0\]\.packages\[0\].*allowed is NAME==VERSION --hash"
        ):
            framework(line)
    with pytest.raises(SubmissionError, match=r"has no onnxruntime==1\.26\.0; it has onnxruntime==1\.25\.1"):
        framework(f"onnxruntime==1.25.1 {HASH}")
    with pytest.raises(SubmissionError, match="one of both"):
        framework(f"onnxruntime==1.26.0 {HASH}", lock_sha256="a" * 64)
    with pytest.raises(SubmissionError, match="one of both"):
        framework()


def test_a_lock_has_the_version_that_is_named_and_its_environment() -> None:
    """Not the one that is installed here; without a name it is what it was."""
    job = {
        "name": "x",
        "model": {"kind": "zoo", "name": "digits"},
        "load": {"arrivals": {"kind": "poisson", "rate_rps": 5.0}},
    }
    old = planned(JobSpec.model_validate({**job, "serve": {"framework": "onnxruntime@1.27.0"}}))
    assert old["runtime"]["version"] == "1.27.0"
    assert old["runtime"]["where"] == "environment onnxruntime-1.27"
    assert len(old["environment"]["lock_sha256"]) == 64
    plain = planned(JobSpec.model_validate(job))
    assert (plain["runtime"]["version"], plain["runtime"]["where"]) == (INSTALLED, "here")
    assert plain["environment"] is None
