"""Make or update InferBench's virtual environment; run by ``make``, with nothing but Python 3.11.

Every version comes from ``constraints.txt``, and nothing is installed whose SHA-256 is not in
``constraints.hashes.txt`` (``make hashes`` makes it), build requirements and uv itself included. uv does the work: it
resolves and installs in seconds what takes pip minutes. uv does not read pip's configuration, so a mirror or a folder
of wheels that this machine's pip knows is handed on to it. torch comes as its CPU build: from such a folder where one
holds it, else from PyTorch's own CPU index; its hashes are in ``constraints.torch.txt``.

``INFERBENCH_REQUIRE_HASHES=0`` installs what the index has, with a warning: for an index with wheels of its own, and
for ``INFERBENCH_TORCH_BACKEND=auto``, which picks a GPU build.

Skipped when the environment already matches the constraints, the project file and the wanted extras.
"""

from __future__ import annotations

import argparse
import fcntl
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "constraints.txt"
HASHES = ROOT / "constraints.hashes.txt"
TORCH_HASHES = ROOT / "constraints.torch.txt"
REQUIRE_HASHES = "INFERBENCH_REQUIRE_HASHES"
TORCH_BACKEND = "INFERBENCH_TORCH_BACKEND"
MARKER = "inferbench-managed"  # extras.py knows by it that it may install into this environment
STATE = "inferbench-setup.json"


def main() -> int:
    if sys.version_info[:2] != (3, 11):
        return fail(
            f"Python 3.11 is needed, this is {sys.version.split()[0]}: make PYTHON=/path/to/python3.11"
        )
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", type=Path, default=ROOT / ".venv", help="the environment's folder")
    parser.add_argument("--extra", action="append", default=[], help="an optional part (repeatable)")
    parser.add_argument("--all", action="store_true", help="every optional part of pyproject.toml but `dev`")
    args = parser.parse_args()
    env = Path(sys.prefix) if (Path(sys.prefix) / MARKER).is_file() else args.env
    env.parent.mkdir(parents=True, exist_ok=True)
    with open(env.parent / f".{env.name.strip('.')}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return update(env, set(args.extra) | (optional_parts() if args.all else set()))


def optional_parts() -> set[str]:
    """What users can install beside the core."""
    return set(project()["optional-dependencies"]) - {"dev"}


def project() -> dict[str, Any]:
    """The table ``project`` of pyproject.toml."""
    import tomllib  # not before this Python is known to have it

    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def update(env: Path, wanted: set[str]) -> int:
    state_path = env / STATE
    state = json.loads(state_path.read_text()) if state_path.is_file() else {}
    extras = sorted(wanted | set(state.get("extras", [])))
    digest, hashes = fingerprint(), os.environ.get(REQUIRE_HASHES) != "0"
    # What is there was compared with nothing; it is not replaced below a process that runs in it.
    unchecked = hashes and bool(state) and not state.get("hashes") and Path(sys.prefix) != env
    if state.get("digest") == digest and set(extras) == set(state.get("extras", [])) and not unchecked:
        return 0
    started = time.monotonic()
    parts = f" with {', '.join(extras)}" if extras else ""
    print(f"Setting up {env}{parts} ...", file=sys.stderr, flush=True)
    if not hashes:
        warning = f"WARNING: {REQUIRE_HASHES}=0: what is installed is not compared with {HASHES.name}."
        print(warning, file=sys.stderr, flush=True)
    python = env / "bin" / "python"
    if not (env / "bin" / "uv").is_file() and (code := make_env(env, python, hashes)):
        return code
    settings = {**os.environ, **pip_settings(python)}
    torch: list[str] = []
    if "torch" in extras and not has_cpu_torch(settings.get("UV_FIND_LINKS", "")):
        torch = ["--torch-backend", os.environ.get(TORCH_BACKEND, "cpu")]
        if hashes and torch[1] != "cpu":
            return fail(
                f"{TORCH_BACKEND}={torch[1]}: no hashes are known of that build; {REQUIRE_HASHES}=0 allows it"
            )
    uv = [str(env / "bin" / "uv"), "pip", "install", "--python", str(python), "--quiet"]
    commands = with_hashes(uv, extras, env, unchecked, torch) if hashes else without_hashes(uv, extras, torch)
    for command in commands:
        if code := subprocess.run(command, env=settings, check=False).returncode:
            remedy = f" An index with other wheels: {REQUIRE_HASHES}=0." if hashes else ""
            return fail(f"Installing failed (exit code {code}); the lines above say why.{remedy}")
    compared = hashes and (not state or unchecked or bool(state.get("hashes")))
    (env / MARKER).write_text(str(ROOT))
    state_path.write_text(json.dumps({"digest": digest, "extras": extras, "hashes": compared}))
    print(f"Set up in {time.monotonic() - started:.0f} s.", file=sys.stderr, flush=True)
    return 0


def with_hashes(
    uv: list[str], extras: list[str], env: Path, again: bool, torch: list[str]
) -> list[list[str]]:
    """First what the project needs, every file compared with its hash; then the project itself, which has none."""
    path = env / "inferbench-requirements.txt"
    path.write_text("\n".join(requirements(extras)) + "\n")
    checked = ["--require-build-hashes", "--build-constraints", str(HASHES)]
    install = [
        *uv,
        *torch,
        *checked,
        "--require-hashes",
        "--constraint",
        str(HASHES),
        "--requirement",
        str(path),
    ]
    return [
        [*install, "--reinstall"] if again else install,
        [*uv, *checked, "--no-deps", "--editable", str(ROOT)],
    ]


def without_hashes(uv: list[str], extras: list[str], torch: list[str]) -> list[list[str]]:
    """The project with what it needs, at its pins."""
    what = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    return [[*uv, *torch, "--constraint", str(PINS), "--editable", what]]


def requirements(extras: list[str]) -> list[str]:
    """What pyproject.toml names, each at its pin: hashes are for exact versions only; KeyError for what has no pin.

    PyPI's torch is the one for GPUs. The CPU build has a version, and so hashes, of its own.
    """
    version_by_name = dict(line.split("==") for line in PINS.read_text().split())
    lines = [] if "torch" not in extras else TORCH_HASHES.read_text().splitlines()
    named = project()["dependencies"] + [
        text for extra in extras for text in project()["optional-dependencies"][extra]
    ]
    for text in named:
        ((name, parts, marker),) = re.findall(r"^([\w.-]+)(\[[^]]*\])?[^;]*(;.*)?$", text)
        name = re.sub(r"[-_.]+", "-", name).lower()
        if name != "torch":
            lines.append(f"{name}{parts}=={version_by_name[name]} {marker}".strip())
    return lines


def hashed(name: str) -> str:
    """The lines of ``constraints.hashes.txt`` for one package."""
    _, start, rest = ("\n" + HASHES.read_text()).partition(f"\n{name}==")
    lines = re.split(r"(?<!\\)\n", start.lstrip() + rest, maxsplit=1)
    return lines[0] + "\n"


def make_env(env: Path, python: Path, hashes: bool) -> int:
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(env)], check=False)
    if made.returncode:
        return fail("Making the environment failed; on Debian and Ubuntu: apt-get install python3.11-venv")
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(hashed("uv") if hashes else hashed("uv").split()[0])
        file.flush()
        pip += ["--require-hashes"] if hashes else []
        if subprocess.run([*pip, "--requirement", file.name], check=False).returncode:
            return fail("Installing uv failed; is a package index reachable (`pip config list`)?")
    return 0


def pip_settings(python: Path) -> dict[str, str]:
    """This machine's pip configuration, in uv's words; what the user set for uv wins."""
    listing = subprocess.run(
        [str(python), "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    found: dict[str, str] = {}
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        name = key.rsplit(".", 1)[-1]
        found[name] = value.strip().strip("'\"").replace("\\n", " ")
    words = {
        "UV_DEFAULT_INDEX": found.get("index-url"),
        "UV_INDEX": found.get("extra-index-url"),
        "UV_FIND_LINKS": ",".join(found["find-links"].split()) if "find-links" in found else None,
        "SSL_CERT_FILE": found.get("cert"),
        "UV_INDEX_STRATEGY": "unsafe-best-match" if "extra-index-url" in found else None,
    }
    return {k: v for k, v in words.items() if v and k not in os.environ}


def has_cpu_torch(find_links: str) -> bool:
    folders = [f for f in find_links.split(",") if f]
    return any(glob.glob(os.path.join(folder, "torch-*cpu*.whl")) for folder in folders)


def fingerprint() -> str:
    digest = hashlib.sha256(sys.version.encode())
    for path in (PINS, HASHES, TORCH_HASHES, ROOT / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    digest.update(str(ROOT).encode())
    return digest.hexdigest()


def fail(message: str) -> int:
    print(message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
