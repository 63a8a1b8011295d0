"""Make or update InferBench's virtual environment; run by ``make``, with nothing but Python 3.11.

Every version comes from ``constraints.txt``. uv does the work: it resolves and installs in seconds what
takes pip minutes. uv does not read pip's configuration, so a mirror or a folder of wheels that this
machine's pip knows is handed on to it. torch comes as its CPU build: from such a folder where one
holds it, else from PyTorch's own CPU index (``INFERBENCH_TORCH_BACKEND=auto`` picks a GPU build).

Skipped when the environment already matches the constraints, the project file and the wanted extras.
"""

from __future__ import annotations

import argparse
import fcntl
import glob
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = "uv==0.13.8"
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
    import tomllib  # not before this Python is known to have it

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return set(project["optional-dependencies"]) - {"dev"}


def update(env: Path, wanted: set[str]) -> int:
    state_path = env / STATE
    state = json.loads(state_path.read_text()) if state_path.is_file() else {}
    extras = sorted(wanted | set(state.get("extras", [])))
    digest = fingerprint()
    if state.get("digest") == digest and set(extras) == set(state.get("extras", [])):
        return 0
    started = time.monotonic()
    print(f"Setting up {env} {extras or ''} ...", file=sys.stderr, flush=True)
    python = env / "bin" / "python"
    if not (env / "bin" / "uv").is_file() and (code := make_env(env, python)):
        return code
    what = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    command = [str(env / "bin" / "uv"), "pip", "install", "--python", str(python), "--quiet"]
    command += ["--constraint", str(ROOT / "constraints.txt"), "--editable", what]
    settings = {**os.environ, **pip_settings(python)}
    if "torch" in extras and not has_cpu_torch(settings.get("UV_FIND_LINKS", "")):
        command += ["--torch-backend", os.environ.get("INFERBENCH_TORCH_BACKEND", "cpu")]
    if code := subprocess.run(command, env=settings, check=False).returncode:
        return fail(f"Installing failed (exit code {code}); the lines above say why.")
    (env / MARKER).write_text(str(ROOT))
    state_path.write_text(json.dumps({"digest": digest, "extras": extras}))
    print(f"Set up in {time.monotonic() - started:.0f} s.", file=sys.stderr, flush=True)
    return 0


def make_env(env: Path, python: Path) -> int:
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(env)], check=False)
    if made.returncode:
        return fail("Making the environment failed; on Debian and Ubuntu: apt-get install python3.11-venv")
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", UV]
    if subprocess.run(pip, check=False).returncode:
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
    for name in ("constraints.txt", "pyproject.toml", "scripts/setup_env.py"):
        digest.update((ROOT / name).read_bytes())
    digest.update(str(ROOT).encode())
    return digest.hexdigest()


def fail(message: str) -> int:
    print(message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
