"""Write ``.env`` for docker-compose: every secret drawn at random, no default password anywhere. Run by ``make env``.

An existing file is left as it is (its secrets are in the databases already); settings that it lacks are added. The pair
of keys for workers of other hosts is drawn by ``openssl``: Python alone has no Ed25519, and here nothing is installed.
"""

from __future__ import annotations

import argparse
import base64
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path


def token() -> str:
    """32 random bytes that need no quoting in a URL or a shell."""
    return secrets.token_hex(32)


def fernet() -> str:
    """The form that Airflow's connections are encrypted with."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


#: Setting -> (how it is drawn, what it is).
SECRETS: dict[str, tuple[Callable[[], str], str]] = {
    "INFERBENCH_ADMIN_PASSWORD": (
        lambda: secrets.token_urlsafe(18),
        "login admin of the web UI (may do all)",
    ),
    "INFERBENCH_SUBMITTER_PASSWORD": (
        lambda: secrets.token_urlsafe(18),
        "login submitter of the web UI (may look and submit)",
    ),
    "INFERBENCH_VIEWER_PASSWORD": (
        lambda: secrets.token_urlsafe(18),
        "login viewer of the web UI (may look)",
    ),
    "POSTGRES_PASSWORD": (token, "Airflow's metadata database"),
    "REDIS_PASSWORD": (token, "the broker"),
    "PERFDB_PASSWORD": (token, "PerfDB (MongoDB), root user inferbench: for its own container alone"),
    "PERFDB_READER_PASSWORD": (token, "PerfDB, user reader: the API server"),
    "PERFDB_WRITER_PASSWORD": (token, "PerfDB, user writer: scheduler and workers"),
    "PERFDB_ADMIN_PASSWORD": (
        token,
        "PerfDB, user admin: writes, and may change collections and indexes; for people",
    ),
    "PERFDB_GATEWAY_PASSWORD": (
        token,
        "PerfDB, user gateway: makes users of the one database, for workers of other hosts",
    ),
    "PERFDB_KEY": (token, "between the members of PerfDB's replica set"),
    "AIRFLOW_FERNET_KEY": (fernet, "encrypts Airflow's connections"),
    "AIRFLOW_API_SECRET": (token, "signs the web UI's sessions"),
    "AIRFLOW_JWT_SECRET": (token, "signs the tokens of the API and of tasks"),
}
SETTINGS = {
    "INFERBENCH_PORT": ("8080", "the web UI's port on this machine"),
    "INFERBENCH_BIND": ("127.0.0.1", "the address it listens on; put a TLS proxy before it for others"),
    "INFERBENCH_NIGHTLY_CRON": ("0 2 * * *", "when configs/nightly runs, UTC"),
    "INFERBENCH_NIGHTLY_NOTIFY": ("", "https://... or mailto:..., separated by commas"),
    "INFERBENCH_GATEWAY_NAMES": (
        "",
        "addresses and names by which workers of other hosts call this one, separated by commas (gateway.yaml)",
    ),
    "INFERBENCH_GATEWAY_BIND": ("0.0.0.0", "the address that the gateway listens on, ports 7440 to 7443"),  # noqa: S104
    "INFERBENCH_GPU": ("0", "the GPU of the gpu worker (profile gpu)"),
}


#: Private and public, drawn together: the scheduler signs what workers of other hosts execute.
PAIR = ("INFERBENCH_SIGNING_KEY", "INFERBENCH_WORKLOADS_KEY")
#: Of an Ed25519 key in DER the last bytes are the key itself (RFC 8410).
KEY_BYTES = 32


def pair() -> tuple[str, str]:
    """An Ed25519 key and its public half, 64 hex digits each; OSError or CalledProcessError without ``openssl``."""
    private = openssl(b"", "genpkey", "-algorithm", "ed25519", "-outform", "DER")
    public = openssl(private, "pkey", "-inform", "DER", "-pubout", "-outform", "DER")
    return private[-KEY_BYTES:].hex(), public[-KEY_BYTES:].hex()


def openssl(given: bytes, *arguments: str) -> bytes:
    """What it answers."""
    return subprocess.run(["openssl", *arguments], input=given, capture_output=True, check=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?", default=Path(".env"))
    path = parser.parse_args().file
    held = path.read_text() if path.exists() else ""
    known = {line.partition("=")[0] for line in held.splitlines()}
    lines = []
    for name, (draw, what) in SECRETS.items():
        if name not in known:
            lines += [f"# {what}", f"{name}={draw()}"]
    for name, (value, what) in SETTINGS.items():
        if name not in known:
            lines += [f"# {what}", f"{name}={value}"]
    if not known.intersection(PAIR):
        try:
            drawn = pair()
        except (OSError, subprocess.CalledProcessError) as error:
            # Who has no workers on other hosts does not need it: gateway.yaml says that it is missing.
            print(
                f"no keys for workers of other hosts were drawn: openssl 1.1.1 or later is needed ({error})",
                file=sys.stderr,
            )
        else:
            lines.append(
                "# signs what workers of other hosts execute (the scheduler's alone), and its public half"
            )
            lines += [f"{name}={value}" for name, value in zip(PAIR, drawn, strict=True)]
    if not lines:
        print(f"{path}: nothing is missing", file=sys.stderr)
        return 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with open(descriptor, "a") as file:
        file.write("\n".join(lines) + "\n")
    os.chmod(path, 0o600)
    print(f"{path}: {sum('=' in line for line in lines)} settings written (mode 600)", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
