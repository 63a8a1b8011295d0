"""Settings of a deployment that hold no secret, made from the code: for compose, and as a ConfigMap for Kubernetes.

python -m inferbench_tasks.provider.system.compose docker/compose/airflow.env docker/kubernetes/settings.yaml
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.provider import plugins_folder
from inferbench_tasks.provider.system.config import EXECUTION_URL, TUNED

#: What depends on the containers and is no secret.
PLACES = {
    "AIRFLOW_HOME": "/airflow",
    "AIRFLOW__CORE__DAGS_FOLDER": "/opt/inferbench/dags",
    plugins_folder.SETTING: "/opt/inferbench/plugins",
    "AIRFLOW__LOGGING__BASE_LOG_FOLDER": "/airflow/logs",
    EXECUTION_URL: "http://execution-api:8081/execution/",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": "/run/inferbench/passwords.json",
    "AIRFLOW__API__HOST": "0.0.0.0",  # noqa: S104 - inside its container; compose publishes it
    "AIRFLOW__API__PORT": "8080",
    "INFERBENCH_NO_INSTALL": "1",
    settings.DATA_DIR: "/data",
    settings.SUBMISSIONS_DIR: "/opt/inferbench/configs/submissions",
}


MADE_BY = "Made by: python -m inferbench_tasks.provider.system.compose"


def text() -> str:
    """The text of the file with the settings of Airflow in containers."""
    lines = [f"# {MADE_BY} docker/compose/airflow.env"]
    lines += ["# The same settings as `inferbench up`; secrets come from .env."]
    return "\n".join([*lines, *(f"{name}={value}" for name, value in (TUNED | PLACES).items())]) + "\n"


def config_map() -> str:
    """The same as a ConfigMap, YAML."""
    lines = [
        f"# {MADE_BY} docker/kubernetes/settings.yaml",
        "# The same settings as `inferbench up`; no secret is here.",
    ]
    lines += ["apiVersion: v1", "kind: ConfigMap", "metadata: {name: inferbench-settings}", "data:"]
    lines += [f"  {name}: {json.dumps(value)}" for name, value in (TUNED | PLACES).items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(config_map() if path.suffix == ".yaml" else text())
