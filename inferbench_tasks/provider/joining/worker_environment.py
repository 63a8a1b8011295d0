"""The settings of a worker that joined: everything by TLS with its own certificate, nothing of the leader's secrets."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlencode

from inferbench_tasks import private, settings
from inferbench_tasks.provider.joining import files
from inferbench_tasks.provider.joining.answers import BROKER_OFFSET, EXECUTION_OFFSET, PERFDB_OFFSET
from inferbench_tasks.provider.joining.leader import AUTHORITY, CERTIFICATE, FILES, Leader
from inferbench_tasks.provider.joining.signing import PUBLIC
from inferbench_tasks.provider.system.config import EXECUTION_URL, TUNED

#: When the token ends by which this host joined, ISO 8601: its workers' access ends with it.
JOINED_UNTIL = "INFERBENCH_JOINED_UNTIL"
BUNDLE = "inferbench_tasks.provider.joining.bundle.LeaderBundle"


def environment(leader: Leader, data_dir: Path) -> dict[str, str]:
    """For the worker's process and its tasks."""
    authority, certificate = str(leader.folder / AUTHORITY), str(leader.folder / CERTIFICATE)
    home = private.folder(data_dir / "airflow")
    host = f"[{leader.host}]" if ":" in leader.host else leader.host
    login = f"{leader.user}:{leader.password}@{host}"
    broker = f"rediss://{login}:{leader.port + BROKER_OFFSET}"
    redis_tls = urlencode(
        {
            "ssl_cert_reqs": "CERT_REQUIRED",
            "ssl_ca_certs": authority,
            "ssl_certfile": certificate,
            "ssl_keyfile": certificate,
        }
    )
    mongo = urlencode(
        {
            "authSource": leader.login_database,
            # The set names its member by the leader's loopback, which is nobody's here.
            "directConnection": "true",
            "tls": "true",
            "tlsCAFile": authority,
            "tlsCertificateKeyFile": certificate,
        }
    )
    folder = leader.folder / FILES
    return {
        **TUNED,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        # Airflow wants one; a worker asks the execution API, and never this.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/none.db",
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / files.DAGS),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(
            [{"name": "dags-folder", "classpath": BUNDLE, "kwargs": {}}]
        ),
        "AIRFLOW__CELERY__BROKER_URL": f"{broker}/0",
        "AIRFLOW__CELERY__RESULT_BACKEND": f"{broker}/1?{redis_tls}",
        "AIRFLOW__CELERY__SSL_ACTIVE": "True",
        "AIRFLOW__CELERY__SSL_CACERT": authority,
        "AIRFLOW__CELERY__SSL_CERT": certificate,
        "AIRFLOW__CELERY__SSL_KEY": certificate,
        EXECUTION_URL: f"https://{host}:{leader.port + EXECUTION_OFFSET}/execution/",
        "AIRFLOW__API__SSL_CA_FILE": authority,
        "AIRFLOW__API__SSL_CERT": "",
        "AIRFLOW__API__CLIENT_USE_PUBLIC_CERTS": "False",
        "AIRFLOW__API__CLIENT_SSL_CERT": certificate,
        "AIRFLOW__API__CLIENT_SSL_KEY": certificate,
        settings.PERFDB_URI: f"mongodb://{login}:{leader.port + PERFDB_OFFSET}/{leader.database}?{mongo}",
        PUBLIC: leader.workloads_key,
        JOINED_UNTIL: leader.expires_at,
        settings.DATA_DIR: str(data_dir),
        settings.PROGRESS: settings.IN_PERFDB,
        settings.SUBMISSIONS_DIR: str(folder / files.SUBMISSIONS),
        **({"INFERBENCH_ARTIFACTS": leader.artifacts} if leader.artifacts else {}),
    }
