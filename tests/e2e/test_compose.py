"""The team's deployment, really started: docker-compose.yaml, with images of the databases made from packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import compose
import pytest

from tests import docker_engine

ROOT = Path(__file__).resolve().parents[2]
FILES = ["-f", str(ROOT / "docker-compose.yaml"), "-f", str(ROOT / "docker" / "local" / "override.yaml")]
RUNNING = {
    "postgres", "redis", "perfdb", "api-server", "execution-api", "scheduler", "dag-processor", "triggerer",
    "worker-host", "worker-cpu",
}  # fmt: skip
SUBMIT = """
import os
from inferbench_tasks.client import InferBench
with InferBench("http://api-server:8080", "admin", os.environ["INFERBENCH_PASSWORD"]) as system:
    run = system.submit({
        "name": "deployed", "user": "team", "model": {"kind": "zoo", "name": "digits"},
        "load": {"arrivals": {"kind": "poisson", "rate_rps": 50}, "duration_s": 5, "warmup_s": 1},
    })["run"]
    print(system.wait(run, timeout_s=400)["state"])
    for one in system.runs():
        print(one["run"], one["verdict"])
"""
LIST = """
from inferbench_tasks import settings
from inferbench_tasks.perfdb.store import PerfDB
with PerfDB.connect(None, settings.data_dir()) as db:
    for run in {one["run_id"] for one in db.find_raw({}, fields=("run_id",))}:
        print(run)
"""

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        not os.environ.get("INFERBENCH_TEST_OPTIONAL"),
        reason="makes the images of a whole deployment; INFERBENCH_TEST_OPTIONAL=1 runs it",
    ),
    pytest.mark.skipif(bool(docker_engine.impossible()), reason=str(docker_engine.impossible())),
    pytest.mark.skipif(
        not shutil.which("debootstrap"),
        reason="debootstrap is not installed (Debian: apt-get install debootstrap)",
    ),
]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of ``docker compose``: a project's name and the secrets that ``make env`` draws."""
    file = tmp_path_factory.mktemp("compose") / ".env"
    subprocess.run([sys.executable, str(ROOT / "scripts" / "make_env.py"), str(file)], check=True)
    lines = [line for line in file.read_text().splitlines() if "=" in line and not line.startswith("#")]
    kept = {"PATH": os.environ["PATH"], "HOME": str(file.parent), "DOCKER_BUILDKIT": "0"}
    return kept | dict(line.split("=", 1) for line in lines) | {"COMPOSE_PROJECT_NAME": "inferbench-test"}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Iterator[Deployment]:
    """Everything built and ready, in a network namespace of its own; taken away with its volumes."""
    # Making the databases' images takes minutes: a folder of one's own keeps them for the next time.
    images = Path(os.environ.get("INFERBENCH_TEST_IMAGES") or tmp_path_factory.mktemp("docker"))
    network = f"ib-{uuid.uuid4().hex[:8]}"
    with docker_engine.engine(images):
        made = subprocess.run(
            ["sh", str(ROOT / "docker" / "local" / "images.sh")], capture_output=True, text=True
        )
        assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]
        Deployment(environment)("build")
    subprocess.run(["ip", "netns", "add", network], check=True)
    try:
        subprocess.run(["ip", "-n", network, "link", "set", "lo", "up"], check=True)
        with docker_engine.engine(images, network):
            found = Deployment(environment)
            try:
                found("up", "-d", "--wait")
                yield found
            finally:
                found("down", "--volumes", "--timeout", "30")
    finally:
        subprocess.run(["ip", "netns", "delete", network], check=True)


class Deployment:
    """``docker compose`` on this project; AssertionError with what it said where it fails."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment | {"DOCKER_HOST": os.environ["DOCKER_HOST"]}

    def __call__(self, *arguments: str, given: Path | None = None) -> str:
        program = Path(compose.__file__).parent / "docker-compose"
        with (given or Path(os.devnull)).open("rb") as stdin:
            done = subprocess.run(
                [str(program), *FILES, *arguments], stdin=stdin,
                capture_output=True, text=True, cwd=ROOT, env=self.environment, timeout=1200,
            )  # fmt: skip
        if done.returncode:
            logs = self("logs", "--tail", "30") if arguments[0] not in ("logs", "build") else ""
            raise AssertionError(f"{arguments}: {done.stdout[-3000:]} {done.stderr[-3000:]} {logs[-12000:]}")
        return done.stdout

    def python(self, service: str, code: str, **settings: str) -> list[str]:
        """The lines that a program prints in a service."""
        given = [part for name, value in settings.items() for part in ("--env", f"{name}={value}")]
        return self("exec", "-T", *given, service, "python", "-c", code).splitlines()


@pytest.fixture(scope="module")
def measured(deployment: Deployment) -> list[str]:
    """A submission by the REST API, from a container: its final state, and the runs in PerfDB with their verdicts."""
    password = deployment.environment["INFERBENCH_ADMIN_PASSWORD"]
    return deployment.python("api-server", SUBMIT, INFERBENCH_PASSWORD=password)


def test_every_part_is_up_and_healthy(deployment: Deployment) -> None:
    """Ten services, each healthy by its own check."""
    lines = deployment("ps", "--format", "{{.Service}} {{.Health}}").split("\n")
    assert {tuple(line.split()) for line in lines if line} == {(name, "healthy") for name in RUNNING}


def test_a_submission_is_measured(measured: list[str]) -> None:
    """It takes its turn on the worker's device and ends with a result; a busy machine may invalidate its figures."""
    state, *attempts = measured
    assert state == "success" and attempts
    assert {verdict.split(" ", 1)[1].split(":")[0] for verdict in attempts} <= {
        "valid",
        "disturbed",
        "invalid",
    }


def test_perfdb_is_closed_to_who_has_no_password(deployment: Deployment) -> None:
    """Neither MongoDB nor Redis nor PostgreSQL answers without one."""
    code = """
import pymongo, redis, psycopg2
from pymongo.errors import OperationFailure
for name, ask, refused in (
    ("perfdb", lambda: list(pymongo.MongoClient("perfdb")["inferbench"]["results"].find()), OperationFailure),
    ("redis", lambda: redis.Redis("redis").ping(), redis.AuthenticationError),
    ("postgres", lambda: psycopg2.connect("postgresql://airflow@postgres/airflow"), psycopg2.OperationalError),
):
    try:
        ask()
        print(name, "open")
    except refused:
        print(name, "closed")
"""
    assert deployment.python("api-server", code) == ["perfdb closed", "redis closed", "postgres closed"]


def test_the_api_server_may_not_write_and_a_worker_has_no_users_rights(deployment: Deployment) -> None:
    """PerfDB refuses by role; dag-processor and triggerer have no login there at all."""
    code = """
import os, pymongo
from pymongo.errors import OperationFailure
db = pymongo.MongoClient(os.environ["INFERBENCH_PERFDB_URI"])["inferbench"]
for name, act in (
    ("read", lambda: db["results"].find_one()),
    ("write", lambda: db["probe"].insert_one({})),
    ("users", lambda: db.client.admin.command("createUser", "x", pwd="x", roles=["root"])),
    ("stop", lambda: db.client.admin.command("shutdown")),
):
    try:
        act()
        print(name, "done")
    except OperationFailure:
        print(name, "refused")
"""
    read, write = ["read done", "write refused"], ["read done", "write done"]
    assert deployment.python("api-server", code)[:2] == read
    assert deployment.python("worker-cpu", code) == [*write, "users refused", "stop refused"]
    assert deployment.python("triggerer", code)[:2] == ["read refused", "write refused"]


def test_a_worker_has_neither_airflows_database_nor_its_keys(deployment: Deployment) -> None:
    """Nor can it change what is installed; the logins' passwords are on no volume."""
    code = """
import os, sys
from pathlib import Path
print([n for n in os.environ if n.endswith(("JWT_SECRET", "FERNET_KEY", "ALCHEMY_CONN", "_PASSWORD", "SECRET_KEY"))])
print(os.access(sys.prefix, os.W_OK), Path("/airflow/passwords.json").exists(), os.getuid())
"""
    assert deployment.python("worker-cpu", code) == ["[]", "False False 50000"]


def test_what_was_measured_survives_the_loss_of_everything(
    deployment: Deployment, measured: list[str], tmp_path: Path
) -> None:
    """Backed up as the documentation says, all volumes gone, restored into a new deployment: the run is there."""
    archive = tmp_path / "perfdb.tar.gz"
    deployment("exec", "-T", "worker-host", "inferbench", "perfdb", "backup", "/data/perfdb.tar.gz")
    deployment("cp", "worker-host:/data/perfdb.tar.gz", str(archive))
    deployment("down", "--volumes", "--timeout", "30")
    deployment("up", "-d", "--wait")
    run = measured[1].split()[0]
    assert run not in deployment.python("worker-host", LIST)
    deployment("exec", "-T", "worker-host", "sh", "-c", "cat >/data/perfdb.tar.gz", given=archive)
    deployment("exec", "-T", "worker-host", "inferbench", "perfdb", "restore", "/data/perfdb.tar.gz")
    assert run in deployment.python("worker-host", LIST)
