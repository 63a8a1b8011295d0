"""Another version of a runtime: its environment holds what its pins say, and its server finds it first."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from inferbench_tasks.backends.environments import COMPLETE, Environment, site_packages
from inferbench_tasks.backends.onnxruntime import OnnxRuntime
from inferbench_tasks.backends.other_runtimes import (
    BROUGHT,
    Runtime,
    environment,
    lines_of,
    lock_of,
    search_path,
)
from inferbench_tasks.errors import ServerError
from tests.serving_cases import dense_case
from tests.unit.backends.test_configurations import spec

MODULE = "runtime_of_a_test"


def wheel(folder: Path, number: str, told: str) -> str:
    """A package whose module tells ``told`` as its version; its SHA-256."""
    path = folder / f"{MODULE}-{number}-py3-none-any.whl"
    info = f"{MODULE}-{number}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{MODULE}.py", f"__version__ = {told!r}\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {MODULE}\nVersion: {number}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def of_wheel(digest: str) -> Environment:
    line = f"{MODULE}==1.2.0 --hash=sha256:{digest}"
    return environment("test-1.2", MODULE, "1.2.0", (line,), 1)


@pytest.fixture(autouse=True)
def only_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package index of these tests is a folder."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.delenv("INFERBENCH_NO_INSTALL", raising=False)


def test_what_is_brought_is_at_least_four_minor_versions_older() -> None:
    """Than what is installed here; its lock has hashes for this machine's architecture and the other one."""
    for package, number in BROUGHT:
        (line,) = lines_of(lock_of(package, number))
        assert line.startswith(f"{package}=={number} --hash=sha256:") and line.count("--hash=") > 4
        minor, own = (int(each.split(".")[1]) for each in (number, version(package)))
        assert own - minor >= 4, f"{package} {version(package)} is installed"


def test_it_is_made_of_its_pins_and_stands_before_what_is_installed(tmp_path: Path) -> None:
    """Once; a process with its search path imports it, and all else as before. Its time says when it was used last."""
    made = of_wheel(wheel(tmp_path, "1.2.0", "1.2.0"))
    assert not made.is_made(tmp_path)
    folder = made.ensure(tmp_path)
    assert made.is_made(tmp_path) and made.lock_sha256 is not None
    (site_packages(folder) / "numpy.py").write_text("__version__ = 'none of ours'\n")
    code = f"import {MODULE}, numpy, onnx; print({MODULE}.__version__, numpy.__version__)"
    env = {**os.environ, "PYTHONPATH": search_path(folder)}
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert told.stdout == "1.2.0 none of ours\n" or "numpy" in told.stderr
    os.utime(folder / COMPLETE, (1, 1))
    assert made.ensure(tmp_path) == folder and (folder / COMPLETE).stat().st_mtime > 1


def test_other_bytes_and_another_version_are_refused(tmp_path: Path) -> None:
    """A file that is not the pinned one is not installed; one that tells another version does not count as made."""
    wheel(tmp_path, "1.2.0", "1.2.0")
    with pytest.raises(ServerError, match=r"(?s)Installing test-1\.2 failed; .*PIP_INDEX_URL.*HASHES"):
        of_wheel("0" * 64).ensure(tmp_path)
    lying = of_wheel(wheel(tmp_path, "1.2.0", "1.3.0"))
    with pytest.raises(ServerError, match=r"can't be used: it tells 1\.2\.0 and 1\.3\.0"):
        lying.ensure(tmp_path)
    assert not lying.is_made(tmp_path)


def test_without_an_index_it_says_what_helps(tmp_path: Path) -> None:
    """Nobody has the file."""
    with pytest.raises(ServerError, match=r"is a package index reachable\? Name one .* or a folder"):
        of_wheel("0" * 64).ensure(tmp_path)


def test_the_server_starts_with_it_and_may_read_it(tmp_path: Path) -> None:
    """Its folder is the first that packages are looked for in; where nothing is named, nothing of the start changes."""
    from inferbench_tasks.backends.base import Deployment

    made = of_wheel(wheel(tmp_path, "1.2.0", "1.2.0"))
    model = dense_case(tmp_path).model
    plain = OnnxRuntime().prepare(Deployment("r", model, spec(), tmp_path, tmp_path))
    other = OnnxRuntime().prepare(
        Deployment("r", model, spec(), tmp_path, tmp_path, runtime=Runtime(MODULE, "1.2.0", made))
    )
    home = tmp_path / made.folder_name
    assert "PYTHONPATH" not in plain.launch.env
    assert other.launch.env["PYTHONPATH"].split(os.pathsep)[0] == str(site_packages(home))
    assert str(home) in other.launch.reach.reads and str(home) not in plain.launch.reach.reads
    assert other.settings == plain.settings, "where a cache lies is no setting"


def test_a_server_that_runs_another_version_measures_nothing(tmp_path: Path) -> None:
    """What counts is what the server's process tells."""
    from inferbench_tasks.backends.base import Deployment

    backend = OnnxRuntime()
    model = dense_case(tmp_path).model
    asked = Runtime("onnxruntime", "1.2.0", environment=None)
    backend.prepare(Deployment("r", model, spec(), tmp_path, tmp_path, runtime=asked))
    (tmp_path / "address.json").write_text('{"pid": 1, "ports": {}, "runtime_version": "1.31.1"}')
    with pytest.raises(
        ServerError, match=r"ONNX Runtime 1\.2\.0 was asked for, and the server runs 1\.31\.1"
    ):
        backend.on_ready()
    (tmp_path / "address.json").write_text('{"pid": 1, "ports": {}, "runtime_version": "1.2.0+local"}')
    backend.on_ready()
