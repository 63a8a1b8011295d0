"""docker/kubernetes by Kubernetes' own schemas, and by what its parts name of each other; nothing is applied."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from inferbench_tasks.loadgen.shared_inputs import MAX_BYTES
from inferbench_tasks.networks.reached_address import ADDRESS
from inferbench_tasks.provider.system import compose as settings_file
from inferbench_tasks.provider.system.config import EXECUTION_URL, TUNED

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docker" / "kubernetes"
#: The oldest that has all fields that are used, and the newest that there is.
VERSIONS = ("1.30", "1.37")
Document = dict[str, Any]


def documents() -> list[Document]:
    """Of the files that kustomization.yaml names, in its order."""
    named = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    assert set(named) | {"kustomization.yaml", "values.yaml"} == {path.name for path in FOLDER.iterdir()}
    return [document for name in named for document in yaml.safe_load_all((FOLDER / name).read_text())]


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> list[Document]:
    """What scripts/kubernetes_secrets.py makes of what `make env` draws."""
    env = tmp_path_factory.mktemp("env") / ".env"
    subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "make_env.py"), str(env)], check=True, capture_output=True
    )
    script = ROOT / "scripts" / "kubernetes_secrets.py"
    done = subprocess.run([sys.executable, str(script), str(env)], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


def workloads() -> dict[str, Document]:
    return {d["metadata"]["name"]: d for d in documents() if d["kind"] in ("Deployment", "DaemonSet")}


def pods() -> dict[str, Document]:
    return {name: workload["spec"]["template"]["spec"] for name, workload in workloads().items()}


def containers() -> Iterator[tuple[str, Document]]:
    for name, pod in pods().items():
        for container in pod.get("initContainers", []) + pod["containers"]:
            yield f"{name}/{container['name']}", container


def values() -> Document:
    found: Document = yaml.safe_load((FOLDER / "values.yaml").read_text())
    return found


def composed() -> dict[str, dict[str, str | None]]:
    """Service of compose, the gateway's file upon it -> its environment, as it is written."""
    found: dict[str, dict[str, str | None]] = {}
    for file in ("docker-compose.yaml", "docker/compose/gateway.yaml"):
        for name, service in yaml.safe_load((ROOT / file).read_text())["services"].items():
            found.setdefault(name, {}).update(service.get("environment") or {})
    return found


def optional_settings() -> set[str]:
    """Those of compose that have a usual value, and those that are not set where .env lacks them."""
    text = "".join(value for of in composed().values() for value in of.values() if isinstance(value, str))
    unset = {name for of in composed().values() for name, value in of.items() if value is None}
    return set(re.findall(r"\$\{(\w+):-", text)) | unset


#: Service of compose -> (container, or part of the chart).
COUNTERPARTS = {
    "api-server": "apiServer", "scheduler": "scheduler", "dag-processor": "dagProcessor", "triggerer": "triggerer",
    "execution-api": "inferbench-execution-api/execution-api", "worker-host": "inferbench-worker-host/worker",
    "worker-cpu": "inferbench-worker-cpu/worker", "worker-gpu": "inferbench-worker-gpu/worker",
    "gateway": "inferbench-gateway/gateway",
}  # fmt: skip
#: What the chart itself puts into its parts, of the Secrets that values.yaml names.
OF_THE_CHART = {
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__CELERY__BROKER_URL",
    "AIRFLOW__CELERY__RESULT_BACKEND", "AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__API__SECRET_KEY",
}  # fmt: skip


@pytest.mark.parametrize("service", COUNTERPARTS)
def test_each_part_has_each_setting_that_compose_gives_it(service: str) -> None:
    """One by one: the same text, the same secret, and where .env may have a value the same name, optional."""
    part = COUNTERPARTS[service]
    given = dict(containers())[part]["env"] if "/" in part else values()[part]["env"]
    here = {variable["name"]: variable for variable in given}
    wanted = composed()[service]
    assert wanted, service
    for name, value in wanted.items():
        if "/" not in part and name in OF_THE_CHART:
            continue
        assert name in here, f"{part} lacks {name}"
        reference = here[name].get("valueFrom", {}).get("secretKeyRef", {})
        if value is None:
            assert reference == {"name": "inferbench", "key": name, "optional": True}
        elif usual := re.fullmatch(r"\$\{(\w+):-.*\}", str(value)):
            assert (reference["key"], reference["optional"]) == (usual[1], True)
        elif needed := re.fullmatch(r"\$\{(\w+):\?.*\}", str(value)):
            assert reference == {"name": "inferbench", "key": needed[1]}
        else:
            text = re.sub(r"\$\{(\w+):\?[^}]*\}", r"$(\1)", str(value)).replace(
                "@postgres/", "@postgres:5432/"
            )
            assert here[name]["value"] == text


def test_no_service_of_compose_is_forgotten() -> None:
    """Databases are yours, exporters your cluster's, migrations the chart's own job; all others have a counterpart."""
    elsewhere = {"postgres", "redis", "perfdb", "init", "node-exporter", "cadvisor", "dcgm-exporter"}
    assert set(composed()) - elsewhere == COUNTERPARTS.keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_valid_by_the_strict_schema(version: str, secrets: list[Document]) -> None:
    """Also the Secrets; the schema knows a field that is none, so that what passes has no misspelt one."""
    for document in [*documents(), *secrets]:
        kubernetes_validate.validate(document, version, strict=True)
    wrong = copy.deepcopy(workloads()["inferbench-gateway"])
    wrong["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
    with pytest.raises(kubernetes_validate.ValidationError, match="volumeMount"):
        kubernetes_validate.validate(wrong, version, strict=True)


def test_the_settings_are_the_codes() -> None:
    """settings.yaml is what the module makes, the same that compose has."""
    assert (FOLDER / "settings.yaml").read_text() == settings_file.config_map()
    data = next(d for d in documents() if d["kind"] == "ConfigMap")["data"]
    assert data == TUNED | settings_file.PLACES


def test_pods_have_no_rights_that_they_do_not_need() -> None:
    """A user of their own without capabilities, without the cluster's API, within limits; no pod is privileged."""
    for name, pod in pods().items():
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 50000
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not any("hostPath" in volume for volume in pod["volumes"]), name
    for name, container in containers():
        context = container["securityContext"]
        assert context == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}, name
        assert container["resources"]["limits"].keys() >= {"cpu", "memory"}, name
        assert container["image"] == "inferbench/airflow", name


def test_what_is_named_is_there(secrets: list[Document]) -> None:
    """Volumes, claims, keys of Secrets, the ConfigMap, pods of Services, variables within values."""
    kinds = {(d["kind"], d["metadata"]["name"]): d for d in [*documents(), *secrets]}
    for name, pod in pods().items():
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for volume in volumes.values():
            if claim := volume.get("persistentVolumeClaim"):
                assert ("PersistentVolumeClaim", claim["claimName"]) in kinds
        used = {
            m["name"]
            for c in pod.get("initContainers", []) + pod["containers"]
            for m in c.get("volumeMounts", [])
        }
        assert used == volumes.keys(), name
    named = [(name, c.get("env", [])) for name, c in containers()]
    named += [
        (name, values()[name].get("env", []))
        for name in ("apiServer", "scheduler", "dagProcessor", "triggerer")
    ]
    for name, env in named:
        seen: set[str] = set()
        for variable in env:
            reference = variable.get("valueFrom", {}).get("secretKeyRef")
            if reference and not reference.get("optional"):
                assert reference["key"] in kinds["Secret", reference["name"]]["stringData"], (name, variable)
            assert set(re.findall(r"\$\((\w+)\)", variable.get("value", ""))) <= seen, (name, variable)
            seen.add(variable["name"])
    for _, container in containers():
        for source in container.get("envFrom", []):
            assert ("ConfigMap", source["configMapRef"]["name"]) in kinds
    labels = [w["spec"]["template"]["metadata"]["labels"] for w in workloads().values()]
    for workload in workloads().values():
        assert (
            workload["spec"]["selector"]["matchLabels"] == workload["spec"]["template"]["metadata"]["labels"]
        )
    for service in (d for d in documents() if d["kind"] == "Service"):
        assert service["spec"]["selector"] in labels


def test_tasks_find_the_execution_api_by_the_name_that_all_settings_have() -> None:
    """A Service of that name and port, before a server that serves nothing else."""
    url = re.fullmatch(r"http://([\w-]+):(\d+)/execution/", settings_file.PLACES[EXECUTION_URL])
    assert url is not None
    service = next(d for d in documents() if d["kind"] == "Service" and d["metadata"]["name"] == url[1])
    assert [port["port"] for port in service["spec"]["ports"]] == [int(url[2])]
    args = pods()["inferbench-execution-api"]["containers"][0]["args"]
    assert args[3:] == ["api-server", "--apps", "execution", "--port", url[2]]


def test_each_part_has_its_own_secrets_only() -> None:
    """As in compose: workers sign nothing and read no metadata, the scheduler alone has the private key."""
    worker = {"REDIS_PASSWORD", "PERFDB_WRITER_PASSWORD", "INFERBENCH_WORKLOADS_KEY"}
    metadata = {"POSTGRES_PASSWORD", "AIRFLOW_FERNET_KEY"}
    held: dict[str, set[str]] = {name: set() for name in pods()}
    for name, container in containers():
        for variable in container.get("env", []):
            reference = variable.get("valueFrom", {}).get("secretKeyRef")
            if reference and reference.get("optional"):
                assert reference["key"] in optional_settings(), (name, variable)
            elif reference:
                held[name.split("/")[0]].add(reference["key"])
    assert held == {
        "inferbench-execution-api": metadata | {"AIRFLOW_JWT_SECRET"},
        "inferbench-worker-host": worker,
        "inferbench-worker-gpu": worker,
        "inferbench-worker-cpu": worker,
        "inferbench-gateway": {
            "REDIS_PASSWORD", "PERFDB_GATEWAY_PASSWORD", "INFERBENCH_GATEWAY_NAMES", "INFERBENCH_WORKLOADS_KEY",
        },
    }  # fmt: skip
    text = json.dumps({name: part for name, part in values().items() if name != "scheduler"})
    assert "INFERBENCH_SIGNING_KEY" not in text and "INFERBENCH_SIGNING_KEY" in json.dumps(
        values()["scheduler"]
    )


def test_workers_of_devices_keep_their_names_and_their_own_data() -> None:
    """The node's name stays while pods come and go; of the leader's they mount what came by form and REST."""
    for kind in ("gpu", "cpu"):
        workload, pod = workloads()[f"inferbench-worker-{kind}"], pods()[f"inferbench-worker-{kind}"]
        assert workload["kind"] == "DaemonSet" and pod["hostNetwork"] and pod["nodeSelector"]
        container = pod["containers"][0]
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        assert mounts["/data"]["name"] == "data" and "emptyDir" in pod["volumes"][0]
        assert {path: mount.get("subPath") for path, mount in mounts.items() if mount["name"] == "leader"} == {
            "/data/submitted": "submitted", "/data/parts": "parts",
        }  # fmt: skip
        resources = container["resources"]
        assert {k: resources["limits"][k] for k in resources["requests"]} == resources["requests"]
    assert pods()["inferbench-worker-gpu"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_workers_of_devices_say_their_node_s_address(kind: str) -> None:
    """The pod is on its node's network, which may have several: without it a load from another node is refused."""
    pod = pods()[f"inferbench-worker-{kind}"]
    env = {variable["name"]: variable for variable in pod["containers"][0]["env"]}
    assert env[ADDRESS]["valueFrom"] == {"fieldRef": {"fieldPath": "status.hostIP"}}


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_workers_of_devices_have_shared_memory_for_large_tensors(kind: str) -> None:
    """More than a load may take of it, as a volume in memory: a container has 64 MB otherwise."""
    pod = pods()[f"inferbench-worker-{kind}"]
    mounts = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    volume = next(volume for volume in pod["volumes"] if volume["name"] == mounts["/dev/shm"])
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"} and 2 * MAX_BYTES < 2**30


def test_what_the_chart_puts_into_pods_is_valid_there(secrets: list[Document]) -> None:
    """Env, volumes and mounts of values.yaml as parts of a pod; Secrets that it names have the keys the chart reads."""
    chart = values()
    for name in ("apiServer", "scheduler", "dagProcessor", "triggerer"):
        part = chart[name]
        container = {"name": "x", "image": "x", "env": part["env"], "volumeMounts": part["extraVolumeMounts"]}
        container["envFrom"] = yaml.safe_load(chart["extraEnvFrom"])
        container |= {key: part[key] for key in ("command", "args") if key in part}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
        pod["spec"] = {"containers": [container], "volumes": part["extraVolumes"]}
        for version in VERSIONS:
            kubernetes_validate.validate(pod, version, strict=True)
        mounted = {mount["name"] for mount in part["extraVolumeMounts"]}
        assert mounted <= {volume["name"] for volume in part["extraVolumes"]}
    keys = {secret["metadata"]["name"]: set(secret["stringData"]) for secret in secrets}
    for name, key in (
        ("metadataSecretName", "connection"), ("brokerUrlSecretName", "connection"),
        ("resultBackendSecretName", "connection"),
    ):  # fmt: skip
        assert key in keys[chart["data"][name]]
    for name, key in (
        ("fernetKeySecretName", "fernet-key"), ("apiSecretKeySecretName", "api-secret-key"),
        ("jwtSecretName", "jwt-secret"), ("webserverSecretKeySecretName", "webserver-secret-key"),
    ):  # fmt: skip
        assert key in keys[chart[name]]


def test_the_chart_runs_the_airflow_that_is_pinned_from_the_image_of_compose() -> None:
    """Version, image and folders are those of the rest of the project."""
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    assert f"apache-airflow=={values()['airflowVersion']}" in pins
    image = values()["images"]["airflow"]
    assert f"image: {image['repository']}:{image['tag']}" in (ROOT / "docker-compose.yaml").read_text()
    (newest,) = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["images"]
    assert (newest["name"], newest["newTag"]) == (image["repository"], image["tag"])
    assert values()["airflowHome"] == settings_file.PLACES["AIRFLOW_HOME"]
    script = values()["apiServer"]["args"][0]
    dockerfile = (ROOT / "docker" / "airflow" / "Dockerfile").read_text()
    assert f"COPY docker/compose/api_server.py {script}" in dockerfile
    assert "!docker/compose/api_server.py" in (ROOT / ".dockerignore").read_text().splitlines()


def script(env: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "kubernetes_secrets.py"), str(env)],
        capture_output=True,
        text=True,
    )


def required() -> set[str]:
    """The keys of the Secret that pods can't start without, and those of which the chart's are made."""
    text = "".join(
        (FOLDER / name).read_text() for name in ("values.yaml", *(path.name for path in FOLDER.iterdir()))
    )
    named = re.findall(r"secretKeyRef: \{name: inferbench, key: (\w+)\}", text)
    return {
        *named,
        "POSTGRES_PASSWORD",
        "REDIS_PASSWORD",
        "AIRFLOW_FERNET_KEY",
        "AIRFLOW_API_SECRET",
        "AIRFLOW_JWT_SECRET",
    }


@pytest.mark.parametrize("missing", sorted(required()))
def test_secrets_of_an_env_that_lacks_one_are_not_made(missing: str, tmp_path: Path) -> None:
    """Whichever a manifest needs: it says what is missing and which command draws it. Of the gateway's names an empty
    text is enough, of a secret it is not.
    """
    env = tmp_path / ".env"
    env.write_text("".join(f"{name}=x\n" for name in required() - {missing}))
    done = script(env)
    assert done.returncode == 2 and f"lacks {missing}: run `make env`" in done.stderr and done.stdout == ""
    env.write_text(env.read_text() + f"{missing}=\n")
    assert script(env).returncode == (0 if missing == "INFERBENCH_GATEWAY_NAMES" else 2)


def test_an_env_is_read_as_compose_reads_it(tmp_path: Path) -> None:
    """Quotes, comments, spaces and ``export`` are no part of a value; what compose would replace is refused."""
    env = tmp_path / ".env"
    others = "".join(f"{name}=x\n" for name in required() - {"REDIS_PASSWORD", "POSTGRES_PASSWORD"})
    env.write_text(
        others
        + """# a comment
  REDIS_PASSWORD="of the \\"broker\\" #1"  # a comment
export POSTGRES_PASSWORD = 'p$1\\n'
INFERBENCH_NIGHTLY_CRON=0 2 * * *   # at two
INFERBENCH_NIGHTLY_NOTIFY=https://x.example/#room
INFERBENCH_KEEP_RUNS=
INFERBENCH_KEEP_LOGS= # as usual
"""
    )
    (data, *_) = [document["stringData"] for document in yaml.safe_load_all(script(env).stdout)]
    assert {name: data[name] for name in data if name not in required()} | {
        name: data[name] for name in ("REDIS_PASSWORD", "POSTGRES_PASSWORD")
    } == {
        "REDIS_PASSWORD": 'of the "broker" #1',
        "POSTGRES_PASSWORD": "p$1\\n",
        "INFERBENCH_NIGHTLY_CRON": "0 2 * * *",
        "INFERBENCH_NIGHTLY_NOTIFY": "https://x.example/#room",
        "INFERBENCH_KEEP_RUNS": "",
        "INFERBENCH_KEEP_LOGS": "",
    }  # fmt: skip
    for line, why in (
        ('REDIS_PASSWORD="a', "quotes do not end"),
        ("REDIS_PASSWORD='a'b", "quotes do not end"),
        ("REDIS_PASSWORD=a$b", "single quotes"),
        ("no setting", "no NAME=value"),
    ):
        env.write_text(others + line + "\n")
        done = script(env)
        assert done.returncode == 2 and why in done.stderr and done.stdout == ""
        assert "a$b" not in done.stderr
