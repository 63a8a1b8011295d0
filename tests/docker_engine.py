"""A Docker engine of the tests' own, without network: nothing is pulled, images are built from ``docker/``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Backends whose image is small enough to be built for the tests.
IMAGES = ("onnxruntime", "triton")
#: Backends' own environments are kept from one run of the tests to the next.
ENVIRONMENTS = Path(sys.prefix) / "inferbench-test-envs"


def impossible() -> str | None:
    """Why no engine can be started here, with the remedy; None if one can."""
    if os.environ.get("DOCKER_HOST"):
        return None
    if not shutil.which("dockerd") or not shutil.which("docker"):
        return "no Docker engine is installed (Debian: apt-get install docker.io)"
    return None if os.geteuid() == 0 else "starting a Docker engine needs root"


@contextmanager
def engine(images: Path | None = None, network: str | None = None) -> Iterator[None]:
    """An engine, known by ``DOCKER_HOST``; one that is given is used as it is.

    ``images``: a folder in which its images stay; ``network``: the network namespace that it lives in, of whose ports
    nobody else knows.
    """
    if os.environ.get("DOCKER_HOST"):
        yield
        return
    # A short path: a socket's may have no more than 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="ib-docker-"))
    socket = f"unix://{folder}/docker.sock"
    command = ["nsenter", f"--net=/run/netns/{network}"] if network else []
    command += ["dockerd", "--data-root", str(images or folder / "data"), "--exec-root", str(folder / "exec")]
    command += ["--host", socket, "--pidfile", str(folder / "pid")]
    command += ["--iptables=false", "--ip6tables=false", "--bridge=none"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    os.environ["DOCKER_HOST"] = socket
    try:
        deadline = time.monotonic() + 60
        while subprocess.run(["docker", "info"], capture_output=True).returncode:
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield
    finally:
        build.cache_clear()
        del os.environ["DOCKER_HOST"]
        process.terminate()
        process.wait(timeout=60)
        # The engine leaves the mount of its network namespace behind.
        subprocess.run(["umount", "--lazy", str(folder / "exec" / "netns" / "default")], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


@cache
def build(kind: str) -> None:
    """A backend's image, from this environment's own packages; once for each engine."""
    script = ROOT / "docker" / "server" / "offline.py"
    command = [sys.executable, str(script), kind, "--environments", str(ENVIRONMENTS)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
