"""Pins and hashes: what may be installed, and that nothing else is."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from inferbench_tasks.backends import mlserver, torchserve, triton_environment
from scripts import setup_env

ROOT = Path(__file__).parents[3]
LOCKS = [
    *sorted((ROOT / "inferbench_tasks" / "backends" / "locks").glob("*.txt")),
    ROOT / "scripts" / "sbom.lock.txt",
]


def hashes_by_pin(path: Path) -> dict[str, list[str]]:
    """Each ``name==version`` of a file with the hashes that it allows."""
    words_by_pin: dict[str, list[str]] = {}
    for word in path.read_text().replace("\\\n", " ").split():
        if "==" in word:
            hashes = words_by_pin.setdefault(word, [])
        else:
            hashes.append(word)
    return words_by_pin


def test_every_pin_has_its_hashes_and_there_are_no_others() -> None:
    """constraints.hashes.txt is constraints.txt with hashes; `make hashes` was not forgotten."""
    pins = (ROOT / "constraints.txt").read_text().split()
    hashes = hashes_by_pin(ROOT / "constraints.hashes.txt")
    assert sorted(hashes) == sorted(pins) == sorted(set(pins))
    names = [re.split("==", pin)[0] for pin in pins]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("path", [ROOT / "constraints.hashes.txt", *LOCKS], ids=lambda path: path.name)
def test_a_file_of_hashes_holds_nothing_else(path: Path) -> None:
    """Exact versions, at least one SHA-256 each; no address of an index, no option of an installer."""
    for pin, hashes in hashes_by_pin(path).items():
        assert re.fullmatch(r"[a-z0-9-]+==[\w.!+]+", pin), pin
        assert hashes and all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", text) for text in hashes), pin
    assert "://" not in path.read_text()


def test_whatever_the_project_names_is_pinned() -> None:
    """The core and every optional part can be installed with hashes; torch's CPU build has its own."""
    extras = sorted(setup_env.project()["optional-dependencies"])
    lines = setup_env.requirements(extras)
    hashes = hashes_by_pin(ROOT / "constraints.hashes.txt")
    for line in lines:
        pin = re.sub(r"\[[^]]*\]", "", line.partition(";")[0].strip())
        assert line.startswith("#") or pin in hashes or re.match(r"torch==\S+\+cpu --hash=sha256:", line), (
            line
        )
    assert any(line.startswith("tritonclient[grpc,http]==") for line in lines)
    assert [hash for name in ("uv", "setuptools") for hash in setup_env.hashed(name).split()[:1]] == [
        pin for name in ("uv", "setuptools") for pin in hashes if pin.startswith(name + "==")
    ]


@pytest.mark.parametrize("module", [mlserver, torchserve, triton_environment], ids=lambda m: m.__name__)
def test_an_environment_of_a_backend_is_made_of_its_lock(module: ModuleType, tmp_path: Path) -> None:
    """The lock has what the backend asks for, at our own versions where it runs with ours."""
    environment = module.environment()
    assert environment.lock in LOCKS
    ((*_, lock),) = environment._installs(tmp_path)
    assert lock == str(environment.lock)
    ours = hashes_by_pin(ROOT / "constraints.hashes.txt")
    pins = hashes_by_pin(environment.lock)
    assert all(pins[pin] == ours[pin] for pin in pins if pin.startswith("onnxruntime=="))


def test_a_wheel_with_other_bytes_is_not_installed(tmp_path: Path) -> None:
    """By the very command of the set-up: name and version are right, and the file is another's."""
    version = next(
        p for p in (ROOT / "constraints.txt").read_text().split() if p.startswith("hpack==")
    ).split("==")[1]
    with zipfile.ZipFile(tmp_path / f"hpack-{version}-py3-none-any.whl", "w") as wheel:
        info = f"hpack-{version}.dist-info"
        wheel.writestr("hpack.py", "print('not hpack')")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: hpack\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    requirements = tmp_path / "requirements.txt"
    uv = [
        str(Path(sys.executable).parent / "uv"),
        "pip",
        "install",
        "--no-index",
        "--find-links",
        str(tmp_path),
    ]
    uv += ["--target", str(tmp_path / "target"), "--no-cache"]
    first, _ = setup_env.with_hashes(uv, [], tmp_path, False, [])
    requirements.write_text(f"hpack=={version}\n")
    first[first.index("--requirement") + 1] = str(requirements)
    result = subprocess.run(first, capture_output=True, text=True)
    assert result.returncode != 0 and "Hash mismatch for `hpack" in result.stderr, result.stderr
    assert not list((tmp_path / "target").glob("hpack*"))
    loose = subprocess.run(
        [*uv, str(tmp_path / f"hpack-{version}-py3-none-any.whl")], capture_output=True, text=True
    )
    assert loose.returncode == 0, loose.stderr


def test_a_gpu_build_of_torch_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No hashes of it are known: the message names the setting, and nothing was installed."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "uv").touch()
    monkeypatch.setenv("INFERBENCH_TORCH_BACKEND", "auto")
    monkeypatch.setattr(setup_env, "pip_settings", lambda _: {"UV_FIND_LINKS": ""})
    assert setup_env.update(tmp_path, {"torch"}) == 1
    assert "INFERBENCH_REQUIRE_HASHES=0 allows it" in capsys.readouterr().err
