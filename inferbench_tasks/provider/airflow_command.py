"""Airflow's own command line at less cost: ``python -m inferbench_tasks.provider.airflow_command scheduler``.

A local system starts half a dozen of Airflow's commands at once, and each takes seconds of a core before it does
anything.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from importlib import import_module

API_SERVER, DAG_PROCESSOR, TRIGGERER = "api-server", "dag-processor", "triggerer"
#: What an api-server serves: Airflow's UI and REST API with our pages, or what running tasks ask.
PUBLIC, EXECUTION = "core", "execution"
#: What our DAG files need: each reading of one is a process of its own, a fork of the dag-processor's.
READ_BY_DAG_FILES = (
    "inferbench_tasks.provider.loader", "inferbench_tasks.provider.submit.dag", "inferbench_tasks.provider.nightly.dag",
)  # fmt: skip


def main() -> None:
    """Run the command in the arguments."""
    # Airflow's import makes millions of objects that stay: looking through them again and again is a fifth of it.
    gc.set_threshold(100_000, 20, 100)
    # And as the interpreter ends it would look through them once more: 1 to 2 s of a core in each of seven processes.
    atexit.register(gc.freeze)
    command = sys.argv[1]
    if command == API_SERVER:
        # As in Airflow's own module of the server: before anything of Airflow is imported.
        os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
    from airflow.__main__ import main as airflow

    apps = _option("--apps")
    if command in (API_SERVER, DAG_PROCESSOR, TRIGGERER) and apps != PUBLIC:  # two serve it to themselves
        from inferbench_tasks.provider.execution_api import drop_old_versions

        drop_old_versions()
    if command == API_SERVER:
        from inferbench_tasks.provider import web_server

        web_server.bound(execution_only=apps == EXECUTION)
    if command == DAG_PROCESSOR:
        for module in READ_BY_DAG_FILES:
            import_module(module)
        # What is alive now is for good: a collection in a fork would only copy its pages.
        gc.collect()
        gc.freeze()
    airflow()  # type: ignore[no-untyped-call]


def _option(name: str) -> str | None:
    """The word behind an option of the command line."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv[:-1] else None


if __name__ == "__main__":
    main()
