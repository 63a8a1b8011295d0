"""Print the Secrets that docker/kubernetes needs of what ``make env`` drew: ``kubernetes_secrets.py .env``.

One holds every setting of the file by its name; the others are in the form in which Airflow's chart takes its own, and
their names stand in docker/kubernetes/values.yaml. The file is read as compose reads it, quotes and comments included,
and every secret that a manifest names has to be in it. It is for ``kubectl apply -f -``: keep none of it in a file.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

#: What a pod can't start without, or lets in whom it should not: drawn by ``make env``, and not empty.
REQUIRED = (
    "AIRFLOW_API_SECRET", "AIRFLOW_FERNET_KEY", "AIRFLOW_JWT_SECRET", "INFERBENCH_ADMIN_PASSWORD",
    "INFERBENCH_SIGNING_KEY", "INFERBENCH_SUBMITTER_PASSWORD", "INFERBENCH_VIEWER_PASSWORD",
    "INFERBENCH_WORKLOADS_KEY", "PERFDB_GATEWAY_PASSWORD", "PERFDB_READER_PASSWORD", "PERFDB_WRITER_PASSWORD",
    "POSTGRES_PASSWORD", "REDIS_PASSWORD",
)  # fmt: skip
#: Has to be there for the gateway's pod; empty where no worker joins from outside.
NAMED = ("INFERBENCH_GATEWAY_NAMES",)
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*")
_QUOTED = re.compile(r"""(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\s*(?:#.*)?""")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def settings(path: Path) -> dict[str, str]:
    """Of an .env file, by name, as compose reads it; ValueError with the line of what it would read otherwise."""
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise ValueError(f"line {number} is no NAME=value")
        found[match[1]] = _value(match[2], f"line {number}, {match[1]}")
    return found


def _value(text: str, where: str) -> str:
    """Without quotes and comment (`` #``); within double quotes a backslash takes the next character as it is."""
    if text[:1] in ("'", '"'):
        quoted = _QUOTED.fullmatch(text)
        if quoted is None:
            raise ValueError(f"{where}: its quotes do not end where the value does")
        if quoted[2] is not None:
            return quoted[2]
        value, bare = quoted[1], re.sub(r"\\.", "", quoted[1])
    else:
        value = bare = re.sub(r"(^|\s+)#.*", "", text)
    if "$" in bare:
        raise ValueError(f"{where}: compose would replace what follows $; put the value into single quotes")
    return re.sub(r"\\(.)", lambda of: _ESCAPES.get(of[1], of[1]), value) if text[:1] == '"' else value


def lacking(values: dict[str, str]) -> list[str]:
    """The settings that are missing, or empty where they must not be."""
    return [name for name in REQUIRED if not values.get(name)] + [
        name for name in NAMED if name not in values
    ]


def secrets(values: dict[str, str]) -> dict[str, dict[str, str]]:
    """The Secrets by name, of all settings."""
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
        values = settings(path)
    except (OSError, ValueError) as error:
        print(f"{path} can't be read: {error}", file=sys.stderr)
        return 2
    if missing := lacking(values):
        print(f"{path} lacks {', '.join(missing)}: run `make env`", file=sys.stderr)
        return 2
    for name, data in secrets(values).items():
        secret = {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "Opaque", "stringData": data,
        }  # fmt: skip
        print("---\n" + json.dumps(secret))
    return 0


if __name__ == "__main__":
    sys.exit(main())
