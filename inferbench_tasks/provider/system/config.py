"""The Airflow settings of InferBench's own installation, each with its reason."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

from inferbench_tasks import private, settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider import plugins_folder

#: Settings that don't depend on where the system runs; docker-compose uses the same.
TUNED: dict[str, str] = {
    # No examples among the team's DAGs, no calls home.
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    # DAG files are read when their folder has changed, on our executor's request (executors/watch.py); every hour
    # all the same. A refresh would clear the import errors of broken YAMLs: never by itself.
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "604800",
    # A sweep of thousands of jobs takes its time, also on a busy machine: Airflow would have none of a file's DAGs.
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "120",
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "300",
    # The scheduler's loop is what lies between two stages: 5 s heartbeats would double a short job. It also runs beside
    # what is measured: looking ten times a second took two thirds of a core with a dozen runs under way, four times a
    # third with three. Half a second's pause is a quarter of one more between two stages.
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    # Logs of tasks are their owner's alone: Airflow's default is the group's too.
    "AIRFLOW__LOGGING__FILE_TASK_HANDLER_NEW_FOLDER_PERMISSIONS": "0o700",
    "AIRFLOW__LOGGING__FILE_TASK_HANDLER_NEW_FILE_PERMISSIONS": "0o600",
    # A dead scheduler's or worker's tasks are found within seconds instead of five minutes.
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
    # An api-server that is started again (half a minute on busy cores) must not cost a measurement its task.
    "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "90",
    "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "20",
    "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "8",
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "20",
    # A job waits for its device in state queued: longer than any queue, or Airflow fails it.
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "604800",
    # Airflow's simple logins with the role `submitter`, and a limit on guesses.
    "AIRFLOW__CORE__AUTH_MANAGER": "inferbench_tasks.provider.auth.manager.AuthManager",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,submitter:submitter,viewer:viewer",
    # Our executor in front of Celery: devices are leased by a policy.
    "AIRFLOW__CORE__EXECUTOR": "inferbench_tasks.provider.executors.device_celery.DeviceCeleryExecutor",
    # Held tasks take pool slots and scheduler slots: both have to exceed the longest queue.
    "AIRFLOW__CORE__DEFAULT_POOL_TASK_SLOT_COUNT": "100000",
    "AIRFLOW__CORE__PARALLELISM": "1000",
    "AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG": "1000",
    # All jobs of a large sweep are looked at in one round of the scheduler.
    "AIRFLOW__SCHEDULER__MAX_TIS_PER_QUERY": "256",
    "AIRFLOW__OPERATORS__DEFAULT_QUEUE": "host",
    # One task at a time and none kept in reserve: a reserved task would wait behind a measurement.
    "AIRFLOW__CELERY__WORKER_PREFETCH_MULTIPLIER": "1",
    "AIRFLOW__CELERY__WORKER_CONCURRENCY": "1",
    "AIRFLOW__CELERY__TASK_ACKS_LATE": "True",
    # Workers import once what every task needs: each would spend 1 to 2 s of a core on it.
    "AIRFLOW__CELERY__CELERY_CONFIG_OPTIONS": "inferbench_tasks.provider.celery_config.CELERY_CONFIG",
    # Sent from the scheduler's own process: what is sent at once is at most one task per device.
    "AIRFLOW__CELERY__SYNC_PARALLELISM": "1",
    # Process titles leave the environment alone: by it a worker finds what an earlier life of it left.
    "SPT_NOENV": "1",
    # A message that is not acknowledged within this time is delivered again: longer than any task.
    "AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__VISIBILITY_TIMEOUT": "604800",
}


#: The users of a local system, as of the compose file.
LOGINS = ("admin", "submitter", "viewer")
#: An external broker in place of the one that ``up`` starts: a Redis URL without a database number.
BROKER_URL = "INFERBENCH_BROKER_URL"
#: The one that is used, with its database.
CELERY_BROKER_URL = "AIRFLOW__CELERY__BROKER_URL"
#: Another executor in place of ours, to compare with.
EXECUTOR = "INFERBENCH_EXECUTOR"
#: An external metadata database in place of SQLite.
METADATA_DB = "INFERBENCH_METADATA_DB"
#: Where tasks ask and report: Airflow's execution API, in a process that serves nothing else.
EXECUTION_URL = "AIRFLOW__CORE__EXECUTION_API_SERVER_URL"
#: How long a process waits for another that writes to SQLite.
SQLITE_WAIT_S = 60


def environment(
    home: Path,
    *,
    port: int,
    execution_port: int,
    broker_port: int,
    dags: Path,
    submissions: Path,
    data_dir: Path,
) -> dict[str, str]:
    """The settings of a system on this machine, whose processes all share them.

    Secrets are drawn once and kept in ``home`` (mode 600); the users are ``admin`` (may do all), ``submitter`` (may
    look and submit) and ``viewer`` (may look), with the passwords in ``passwords.json``.
    """
    secret = _secrets(home)
    url = f"http://127.0.0.1:{port}"
    broker = os.environ.get(BROKER_URL) or f"redis://:{secret['broker']}@127.0.0.1:{broker_port}"
    return {
        **TUNED,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        **plugins_folder.setting(),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        # SQLite has one writer at a time: on a busy machine a scheduler's round may be longer than the 5 s after which
        # whoever waits behind it gets an error ("database is locked"; the UI's answer was 500).
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": os.environ.get(
            METADATA_DB, f"sqlite:///{home / 'airflow.db'}?timeout={SQLITE_WAIT_S}"
        ),
        **({"AIRFLOW__CORE__EXECUTOR": os.environ[EXECUTOR]} if EXECUTOR in os.environ else {}),
        CELERY_BROKER_URL: f"{broker}/0",
        "AIRFLOW__CELERY__RESULT_BACKEND": f"{broker}/1",
        # A server of its own: whatever the public one is asked, running tasks get their answers.
        EXECUTION_URL: f"http://127.0.0.1:{execution_port}/execution/",
        "AIRFLOW__CORE__FERNET_KEY": secret["fernet"],
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": secret["api"],
        "AIRFLOW__API_AUTH__JWT_SECRET": secret["jwt"],
        settings.DATA_DIR: str(data_dir),
        settings.SUBMISSIONS_DIR: str(submissions),
    }


def passwords(home: Path) -> dict[str, str]:
    """The password of each user of the local system; InputError where there is none, or it is another's."""
    path = home / "passwords.json"
    try:
        password_by_user: dict[str, str] = json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"There is no system in {home.parent}; `inferbench up` starts one.") from None
    except PermissionError:
        raise InputError(
            f"{path} can be read by its owner only: ask who runs the system for a login of yours."
        ) from None
    return password_by_user


def broker_password(home: Path) -> str:
    """Of the broker that ``up`` starts."""
    return _secrets(home)["broker"]


def _secrets(home: Path) -> dict[str, str]:
    import base64

    path = home / "secrets.json"
    if not path.exists():
        private.folder(home)
        drawn = {
            "fernet": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "api": secrets.token_urlsafe(32),
            "jwt": secrets.token_urlsafe(48),
            "broker": secrets.token_urlsafe(24),
        }
        private.write(path, json.dumps(drawn))
    _draw_passwords(home / "passwords.json")
    secrets_by_name: dict[str, str] = json.loads(path.read_text())
    return secrets_by_name


def _draw_passwords(path: Path) -> None:
    """One for each user that has none: a system of an earlier version had fewer."""
    password_by_user: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    drawn = {user: secrets.token_urlsafe(12) for user in LOGINS if user not in password_by_user}
    if drawn:
        private.write(path, json.dumps(password_by_user | drawn))
