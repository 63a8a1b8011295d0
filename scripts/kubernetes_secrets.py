"""Print the Secrets that docker/kubernetes needs of what ``make env`` drew: ``kubernetes_secrets.py .env``.

One holds every setting of the file by its name; the others are in the form in which Airflow's chart takes its own, and
their names stand in docker/kubernetes/values.yaml. It is for ``kubectl apply -f -``: keep none of it in a file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def settings(path: Path) -> dict[str, str]:
    """Of an .env file, by name."""
    lines = [line for line in path.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def secrets(values: dict[str, str]) -> dict[str, dict[str, str]]:
    """The Secrets by name; KeyError for a setting that is missing."""
    broker = f"redis://:{values['REDIS_PASSWORD']}@redis:6379"
    metadata = f"postgresql+psycopg2://airflow:{values['POSTGRES_PASSWORD']}@postgres:5432/airflow"
    # The keys, in each, are the chart's.
    return {
        "inferbench": values,
        "inferbench-metadata": {"connection": metadata},
        "inferbench-broker": {"connection": f"{broker}/0"},
        "inferbench-result-backend": {"connection": f"{broker}/1"},
        "inferbench-airflow": {
            "fernet-key": values["AIRFLOW_FERNET_KEY"],
            "api-secret-key": values["AIRFLOW_API_SECRET"],
            "webserver-secret-key": values["AIRFLOW_API_SECRET"],
            "jwt-secret": values["AIRFLOW_JWT_SECRET"],
        },
    }


def main() -> int:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else ".env")
    try:
        made = secrets(settings(path))
    except (OSError, KeyError) as error:
        print(f"{path} lacks {error}: run `make env`", file=sys.stderr)
        return 2
    for name, data in made.items():
        secret = {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "Opaque", "stringData": data,
        }  # fmt: skip
        print("---\n" + json.dumps(secret))
    return 0


if __name__ == "__main__":
    sys.exit(main())
