"""The API server, with the logins of the web UI from its environment in a file that only this container has."""

import json
import os
from pathlib import Path

PASSWORDS = Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])


def main() -> None:
    logins = {
        user: os.environ.pop(f"INFERBENCH_{user.upper()}_PASSWORD")
        for user in ("admin", "submitter", "viewer")
    }
    descriptor = os.open(PASSWORDS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w") as file:
        json.dump(logins, file)
    command = ["python", "-m", "inferbench_tasks.provider.airflow_command", "api-server", "--apps", "core"]
    os.execvp("python", command)  # noqa: S606 - the container's one process


if __name__ == "__main__":
    main()
