"""The team's deployment: docker-compose.yaml as compose itself understands it, and the secrets of `make env`."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.shared_inputs import MAX_BYTES
from inferbench_tasks.networks.reached_address import ADDRESS, reached_address
from inferbench_tasks.provider import plugins_folder
from inferbench_tasks.provider.system import compose as settings_file
from inferbench_tasks.provider.system.config import EXECUTION_URL, TUNED

ROOT = Path(__file__).parents[3]
AIRFLOW_COMMAND = ["python", "-m", "inferbench_tasks.provider.airflow_command"]
PROFILED = {"worker-gpu", "node-exporter", "cadvisor", "dcgm-exporter"}


def make_env(path: Path) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "make_env.py"), str(path)], capture_output=True
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def config(env: Path, *more: str) -> subprocess.CompletedProcess[str]:
    import compose

    program = Path(compose.__file__).parent / "docker-compose"
    command = [str(program), "--env-file", str(env), "-f", str(ROOT / "docker-compose.yaml"), *more, "config"]
    clean = {"PATH": os.environ["PATH"], "HOME": str(env.parent)}
    return subprocess.run(
        [*command, "--format", "json"], capture_output=True, text=True, env=clean, timeout=60
    )


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make env` writes."""
    path = tmp_path_factory.mktemp("env") / ".env"
    make_env(path)
    return path


@pytest.fixture(scope="module")
def secrets(env: Path) -> dict[str, str]:
    """The drawn ones by name."""
    lines = [line for line in env.read_text().splitlines() if not line.startswith("#")]
    values = dict(line.split("=", 1) for line in lines)
    return {name: value for name, value in values.items() if re.search("PASSWORD|KEY|SECRET", name)}


def airflows(services: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The environments of the services that run our image."""
    ours = {name: service for name, service in services.items() if service["image"].startswith("inferbench/")}
    return {name: service["environment"] for name, service in ours.items()}


@pytest.fixture(scope="module")
def services(env: Path) -> dict[str, Any]:
    """Every service, profiles included, with all defaults and secrets filled in."""
    done = config(env, "--profile", "*")
    assert done.returncode == 0 and "warn" not in done.stderr.lower(), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["services"]
    return found


def test_a_team_gets_every_part(services: dict[str, Any]) -> None:
    """Airflow's parts, three databases, a worker per device; GPU and exporters only with their profile."""
    assert set(services) == PROFILED | {
        "postgres", "redis", "perfdb", "init", "api-server", "execution-api", "scheduler", "dag-processor",
        "triggerer", "worker-host", "worker-cpu",
    }  # fmt: skip
    assert {name for name, service in services.items() if service.get("profiles")} == PROFILED
    (device,) = services["worker-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"] and device["device_ids"] == ["0"]


def test_nothing_is_privileged_unlimited_or_unpinned(services: dict[str, Any]) -> None:
    """Capabilities dropped, limits and a health check set, an exact version of every image."""
    for name, service in services.items():
        assert not service.get("privileged"), name
        assert service["cap_drop"] == ["ALL"] and "no-new-privileges:true" in service["security_opt"], name
        limits = service["deploy"]["resources"]["limits"]
        assert limits["cpus"] and limits["memory"], name
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+[\w.-]*", service["image"]), service["image"]
        assert name == "init" or service["healthcheck"]["test"], name


def test_only_the_web_ui_is_reachable_and_from_this_machine_only(services: dict[str, Any]) -> None:
    """No database's port leaves the deployment's network."""
    published = {
        (name, port["host_ip"]) for name, service in services.items() for port in service.get("ports", [])
    }
    assert published == {("api-server", "127.0.0.1")}


def test_every_process_of_airflow_has_the_settings_of_inferbench_up(services: dict[str, Any]) -> None:
    """The same executor and the same tuned settings, and what is installed stays as it is."""
    parts = airflows(services)
    assert len(parts) == 9
    for environment in parts.values():
        assert {name: environment.get(name) for name in TUNED} == TUNED
        assert environment["INFERBENCH_NO_INSTALL"] == "1"


def test_each_service_has_its_own_secrets_only(services: dict[str, Any], secrets: dict[str, str]) -> None:
    """By their values, wherever they stand: workers sign no tokens and read no metadata, PerfDB's root is its own."""
    metadata, broker = {"POSTGRES_PASSWORD", "AIRFLOW_FERNET_KEY"}, {"REDIS_PASSWORD"}
    logins = {f"INFERBENCH_{name}_PASSWORD" for name in ("ADMIN", "SUBMITTER", "VIEWER")}
    users = {f"PERFDB_{name}_PASSWORD" for name in ("READER", "WRITER", "ADMIN", "GATEWAY")}
    worker = broker | {"PERFDB_WRITER_PASSWORD"}
    expected = {
        "postgres": {"POSTGRES_PASSWORD"}, "redis": broker, "perfdb": users | {"PERFDB_PASSWORD", "PERFDB_KEY"},
        "init": metadata, "dag-processor": metadata, "triggerer": metadata,
        "api-server": metadata | logins | {"AIRFLOW_JWT_SECRET", "AIRFLOW_API_SECRET", "PERFDB_READER_PASSWORD"},
        "execution-api": metadata | {"AIRFLOW_JWT_SECRET"},
        "scheduler": metadata | worker | {"AIRFLOW_JWT_SECRET"},
        "worker-host": worker, "worker-cpu": worker, "worker-gpu": worker,
        "node-exporter": set(), "cadvisor": set(), "dcgm-exporter": set(),
    }  # fmt: skip
    held = {
        name: {secret for secret, value in secrets.items() if value in json.dumps(service)}
        for name, service in services.items()
    }
    assert held == expected
    assert set().union(*held.values()) == secrets.keys() - {
        "INFERBENCH_SIGNING_KEY",
        "INFERBENCH_WORKLOADS_KEY",
    }


def test_perfdb_is_used_by_the_role_that_a_service_needs(services: dict[str, Any]) -> None:
    """The API server reads, scheduler and workers write; others are refused there, and start none of their own."""
    users = {
        name: (uri.split("//")[1].split(":")[0] if "@" in uri else None)
        for name, environment in airflows(services).items()
        for uri in [environment["INFERBENCH_PERFDB_URI"]]
    }
    assert users == {
        "api-server": "reader", "scheduler": "writer", "worker-host": "writer", "worker-cpu": "writer",
        "worker-gpu": "writer", "init": None, "execution-api": None, "dag-processor": None, "triggerer": None,
    }  # fmt: skip


def test_the_logins_passwords_are_the_api_servers_alone(services: dict[str, Any], tmp_path: Path) -> None:
    """In memory of its container, in no volume; mode 600, and not in the server's environment."""
    path = Path(settings_file.PLACES["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
    assert [entry.split(":")[0] for entry in services["api-server"]["tmpfs"]] == [str(path.parent)]
    for service in services.values():
        assert not any(path.is_relative_to(volume["target"]) for volume in service.get("volumes", ()))
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nenv > {tmp_path}/env\necho "$@" > {tmp_path}/arguments\n')
    program.chmod(0o755)
    logins = {f"INFERBENCH_{name}_PASSWORD": name.lower() for name in ("ADMIN", "SUBMITTER", "VIEWER")}
    place = {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(tmp_path / "p.json")}
    script = ROOT / "docker" / "compose" / "api_server.py"
    path_ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run([sys.executable, str(script)], env=path_ | logins | place, check=True)
    assert json.loads((tmp_path / "p.json").read_text()) == {
        name: name for name in ("admin", "submitter", "viewer")
    }
    assert stat.S_IMODE((tmp_path / "p.json").stat().st_mode) == 0o600
    assert "_PASSWORD=" not in (tmp_path / "env").read_text()
    started = (tmp_path / "arguments").read_text().split()
    assert started == [*AIRFLOW_COMMAND[1:], "api-server", "--apps", "core"]


def test_tasks_ask_a_server_that_serves_nobody_else(services: dict[str, Any]) -> None:
    """All parts name it as the execution API; it has a port of its own that is not published, and no results."""
    for environment in airflows(services).values():
        assert environment[EXECUTION_URL] == "http://execution-api:8081/execution/"
    server = services["execution-api"]
    assert server["command"] == [*AIRFLOW_COMMAND, "api-server", "--apps", "execution", "--port", "8081"]
    assert "ports" not in server and "8081/execution/health" in server["healthcheck"]["test"][-1]
    assert [mount["target"] for mount in server["volumes"]] == ["/airflow/logs"]


def test_the_logins_of_a_team_are_another_file(env: Path) -> None:
    """With ``fab.yaml`` all parts have FAB's auth manager, the image its packages; no password is a setting."""
    fab = "docker/compose/fab.yaml"
    process = config(env, "-f", str(ROOT / fab), "--profile", "*")
    assert process.returncode == 0, process.stderr
    services = json.loads(process.stdout)["services"]
    for name, environment in airflows(services).items():
        assert environment["AIRFLOW__CORE__AUTH_MANAGER"] == "inferbench_tasks.provider.auth.fab.AuthManager"
        assert "fab" in services[name]["build"]["args"]["EXTRAS"].split(","), name
        assert not [key for key in environment if key.startswith("INFERBENCH_") and "_PASSWORD" in key], name
    server = services["api-server"]
    settings = server["environment"]["AIRFLOW__FAB__CONFIG_FILE"]
    assert [mount["read_only"] for mount in server["volumes"] if mount["target"] == settings] == [True]
    assert server["command"] == [*AIRFLOW_COMMAND, "api-server", "--apps", "core"]


GATEWAY = ROOT / "docker" / "compose" / "gateway.yaml"


@pytest.fixture(scope="module")
def listening(env: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The services of a deployment that workers of other hosts join."""
    named = tmp_path_factory.mktemp("named") / ".env"
    named.write_text(
        env.read_text().replace("INFERBENCH_GATEWAY_NAMES=", "INFERBENCH_GATEWAY_NAMES=192.0.2.10")
    )
    process = config(named, "-f", str(GATEWAY), "--profile", "*")
    assert process.returncode == 0 and "warn" not in process.stderr.lower(), process.stderr
    found: dict[str, Any] = json.loads(process.stdout)["services"]
    return found


def test_a_gateway_without_a_name_or_keys_is_not_started(env: Path, tmp_path: Path) -> None:
    """Compose says what is missing: the names, or the keys that an .env of an earlier version has not."""
    process = config(env, "-f", str(GATEWAY))
    assert process.returncode and "INFERBENCH_GATEWAY_NAMES" in process.stderr
    old = tmp_path / ".env"
    lines = env.read_text().splitlines()
    old.write_text("\n".join(line for line in lines if "SIGNING" not in line and "WORKLOADS" not in line))
    process = config(old, "-f", str(GATEWAY))
    assert process.returncode and "run make env" in process.stderr


def test_with_the_gateway_each_worker_executes_what_the_scheduler_signed(
    services: dict[str, Any], listening: dict[str, Any], secrets: dict[str, str]
) -> None:
    """Of the pair the private half is the scheduler's alone; the gateway has two logins that make users."""
    from inferbench_tasks.provider.joining.signing import PUBLIC, SigningKey

    holders = {
        name
        for name, environment in airflows(listening).items()
        if secrets["INFERBENCH_SIGNING_KEY"] in environment.values()
    }
    assert holders == {"scheduler"} and listening.keys() == services.keys() | {"gateway"}
    told = {
        name: environment.get("INFERBENCH_WORKLOADS_KEY")
        for name, environment in airflows(listening).items()
        if name in ("scheduler", "gateway") or name.startswith("worker-")
    }
    assert set(told.values()) == {secrets["INFERBENCH_WORKLOADS_KEY"]} and len(told) == 5
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERBENCH_SIGNING_KEY", secrets["INFERBENCH_SIGNING_KEY"])
        assert SigningKey.of(Path("/nowhere")).environment == {PUBLIC: secrets["INFERBENCH_WORKLOADS_KEY"]}
    mine = {name for name, value in secrets.items() if value in json.dumps(listening["gateway"])}
    assert mine == {"REDIS_PASSWORD", "PERFDB_GATEWAY_PASSWORD", "INFERBENCH_WORKLOADS_KEY"}
    for name, service in services.items():
        changed = listening[name].get("environment", {}).keys() ^ service.get("environment", {}).keys()
        assert set(changed) <= {"INFERBENCH_WORKLOADS_KEY", "INFERBENCH_SIGNING_KEY"}, name
        assert bool(changed) == (name in told), name


def test_the_gateway_is_hardened_and_publishes_its_four_ports(listening: dict[str, Any]) -> None:
    """Nothing else of the deployment is reachable but the web UI; authority and tokens are on a volume of its own."""
    published = {
        (name, int(port["published"]))
        for name, service in listening.items()
        for port in service.get("ports", [])
    }
    assert published == {("api-server", 8080)} | {("gateway", port) for port in range(7440, 7444)}
    gateway = listening["gateway"]
    assert gateway["cap_drop"] == ["ALL"] and "no-new-privileges:true" in gateway["security_opt"]
    assert gateway["deploy"]["resources"]["limits"]["memory"] and gateway["healthcheck"]["test"]
    joining = {
        name
        for name, service in listening.items()
        for mount in service.get("volumes", [])
        if mount["source"] == "joining"
    }
    assert joining == {"gateway"}
    assert not {name for name, value in TUNED.items() if gateway["environment"].get(name) != value}


WORKER = ROOT / "docker-compose.worker.yaml"
#: What an object store is reached by.
STORE = ("INFERBENCH_ARTIFACTS", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def worker_config(profile: str, **more: str) -> subprocess.CompletedProcess[str]:
    import compose

    program = Path(compose.__file__).parent / "docker-compose"
    command = [str(program), "-f", str(WORKER), "--profile", profile, "config", "--format", "json"]
    clean = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PWD": str(ROOT)}
    return subprocess.run(
        command, capture_output=True, text=True, env=clean | more, timeout=60, cwd=ROOT / "docker"
    )


@pytest.mark.parametrize(("profile", "name"), [("cpu", "worker"), ("gpu", "worker-gpu")])
def test_a_host_joins_with_a_leader_and_a_token_and_nothing_else(profile: str, name: str) -> None:
    """One service, with no secret of the leader's; on the host's own network, and not privileged."""
    leader = {"INFERBENCH_LEADER": "https://192.0.2.10:7440", "INFERBENCH_JOIN_TOKEN": "ib1.token"}
    process = worker_config(profile, **leader)
    assert process.returncode == 0, process.stderr
    document = json.loads(process.stdout)
    assert set(document["services"]) == {name}
    service = document["services"][name]
    expected = ["inferbench", "worker", "--join", leader["INFERBENCH_LEADER"], "--device", "auto"]
    assert service["command"] == expected
    assert {name: value for name, value in service["environment"].items() if value is not None} == {
        "INFERBENCH_JOIN_TOKEN": "ib1.token", "INFERBENCH_CACHE_BYTES": "50GB", ADDRESS: "",
    }  # fmt: skip
    assert service["network_mode"] == "host" and not service.get("privileged")
    assert service["cap_drop"] == ["ALL"] and service["deploy"]["resources"]["limits"]["memory"]
    devices = service["deploy"]["resources"].get("reservations", {}).get("devices", [])
    assert [device["capabilities"] for device in devices] == ([["gpu"]] if profile == "gpu" else [])
    for missing in leader:
        process = worker_config(profile, **{n: v for n, v in leader.items() if n != missing})
        assert process.returncode and missing in process.stderr


def test_a_joined_host_says_its_address_and_its_store() -> None:
    """As its environment has them: one of several addresses, and what reaches the object store."""
    more = {ADDRESS: "192.0.2.7"} | dict.fromkeys(STORE, "x")
    process = worker_config(
        "cpu", INFERBENCH_LEADER="https://192.0.2.10:7440", INFERBENCH_JOIN_TOKEN="t", **more
    )
    assert process.returncode == 0, process.stderr
    environment = json.loads(process.stdout)["services"]["worker"]["environment"]
    assert {name: environment[name] for name in more} == more


def test_a_blank_address_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a variable which compose hands on empty leaves a host with one address as it was."""
    monkeypatch.delenv(ADDRESS, raising=False)

    def said() -> str:
        try:
            return reached_address()
        except InputError as error:
            return str(error)

    unset = said()
    monkeypatch.setenv(ADDRESS, " ")
    assert said() == unset


def test_workers_reach_the_object_store_that_env_names(
    services: dict[str, Any], env: Path, tmp_path: Path
) -> None:
    """Workers alone have its keys; without them in .env nothing is set. The image has the packages, with FAB's too."""
    named = tmp_path / ".env"
    more = {"INFERBENCH_ARTIFACTS": "s3://bucket/team"} | {name: f"of {name}" for name in STORE[1:]}
    named.write_text(env.read_text() + "".join(f"{name}='{value}'\n" for name, value in more.items()))
    process = config(named, "--profile", "*")
    assert process.returncode == 0, process.stderr
    parts = airflows(json.loads(process.stdout)["services"])
    holders = {name for name, environment in parts.items() if more.items() <= environment.items()}
    assert holders == {"worker-host", "worker-cpu", "worker-gpu"}
    assert not [name for name in parts.keys() - holders if more.keys() & parts[name].keys()]
    assert not [
        name for environment in airflows(services).values() for name in STORE if environment.get(name)
    ]
    for file in ("docker/airflow/Dockerfile", "docker/compose/fab.yaml"):
        (extras,) = re.findall(r"EXTRAS[=:] ?\"?([\w,]+)", (ROOT / file).read_text())
        assert "objects" in extras.split(","), file


def test_containers_of_devices_have_shared_memory_for_large_tensors(services: dict[str, Any]) -> None:
    """More than a load may take of it: a container has 64 MB otherwise."""
    joined = worker_config("cpu", INFERBENCH_LEADER="https://192.0.2.10:7440", INFERBENCH_JOIN_TOKEN="t")
    worker = json.loads(joined.stdout)["services"]["worker"]
    for service in (services["worker-cpu"], services["worker-gpu"], worker):
        assert int(service["shm_size"]) == 2**30 > 2 * MAX_BYTES


def test_no_service_can_write_the_settings_of_another(services: dict[str, Any]) -> None:
    """Airflow's settings name code that is run: of its home only the logs are shared."""
    shared = {
        mount["target"]
        for name in airflows(services)
        for mount in services[name]["volumes"]
        if not mount.get("read_only")
    }
    assert shared == {"/airflow/logs", "/data"}


def test_the_settings_file_is_the_codes() -> None:
    """docker/compose/airflow.env is what the module makes; its first line says how to make it again."""
    assert (ROOT / "docker" / "compose" / "airflow.env").read_text() == settings_file.text()


def test_the_image_carries_the_folders_that_the_settings_name() -> None:
    """DAGs, plugins and configs are copied to where Airflow looks, and the build's context has them."""
    copies = (ROOT / "docker" / "airflow" / "Dockerfile").read_text().splitlines()
    context = (ROOT / ".dockerignore").read_text().splitlines()
    named = (settings_file.PLACES[name] for name in ("AIRFLOW__CORE__DAGS_FOLDER", plugins_folder.SETTING))
    for place in (*named, "/opt/inferbench/configs"):
        folder = Path(place).name
        assert f"COPY {folder} {place}" in copies and f"!{folder}" in context
        assert any((ROOT / folder).iterdir())


def test_without_secrets_nothing_starts(tmp_path: Path) -> None:
    """No default password: compose refuses, and names make env."""
    empty = tmp_path / ".env"
    empty.write_text("")
    done = config(empty)
    assert done.returncode != 0 and "make env" in done.stderr


def test_secrets_are_random_private_and_kept(tmp_path: Path) -> None:
    """Two files share none; mode 600; a second run changes nothing, and adds what is missing."""
    first, second = make_env(tmp_path / "a"), make_env(tmp_path / "b")
    secret = [name for name in first if re.search("PASSWORD|KEY|SECRET", name)]
    assert len(secret) == 16 and all(
        len(first[name]) >= 24 and first[name] != second[name] for name in secret
    )
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert make_env(tmp_path / "a") == first
    kept = "\n".join(f"{k}={v}" for k, v in first.items() if k != "PERFDB_KEY")
    (tmp_path / "a").write_text(kept + "\n")
    again = make_env(tmp_path / "a")
    assert again | {"PERFDB_KEY": ""} == first | {"PERFDB_KEY": ""}
    assert again["PERFDB_KEY"] != first["PERFDB_KEY"]
