"""Once before the others: the logins of the web UI from the environment, and Airflow's metadata database."""

import json
import os
import subprocess
import sys
from pathlib import Path

PASSWORDS = Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])


def main() -> int:
    logins = {
        user: os.environ[f"INFERBENCH_{user.upper()}_PASSWORD"] for user in ("admin", "submitter", "viewer")
    }
    descriptor = os.open(PASSWORDS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w") as file:
        json.dump(logins, file)
    return subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
