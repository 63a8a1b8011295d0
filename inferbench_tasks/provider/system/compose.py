"""Settings of the team's deployment that hold no secret: ``docker/compose/airflow.env``, made from the code.

python -m inferbench_tasks.provider.system.compose docker/compose/airflow.env
"""

from __future__ import annotations

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


def text() -> str:
    """The text of the file with the settings of Airflow in containers."""
    lines = ["# Made by: python -m inferbench_tasks.provider.system.compose docker/compose/airflow.env"]
    lines += ["# The same settings as `inferbench up`; secrets come from .env."]
    return "\n".join([*lines, *(f"{name}={value}" for name, value in (TUNED | PLACES).items())]) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text())
