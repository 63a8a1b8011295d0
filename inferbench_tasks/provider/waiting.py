"""How tasks wait for DAGs that Airflow has to read first, and for runs of those."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError

log = logging.getLogger(__name__)

#: The scheduler sees a new file within a second and has it read; far beyond that something is wrong.
PATIENCE_S = 300.0
POLL_S = 1.0
#: How often the triggerer looks whether a run has ended, and how long it does so.
LOOK_S, LONGEST = 2.0, timedelta(days=7)
#: A run whose device was lost looks failed until its job waits again.
SETTLE = timedelta(seconds=10)


def wait_until_known(ti: Any, dag_id: str) -> None:
    """Until Airflow has read that DAG; AirflowFailException where it does not."""
    deadline = time.monotonic() + PATIENCE_S
    while not _is_known(ti, dag_id):
        if time.monotonic() > deadline:
            raise AirflowFailException(
                f"Airflow's dag-processor did not find {dag_id} within {PATIENCE_S:.0f} s: "
                "does it run, has it our DAG files, and does it share the data directory?"
            )
        time.sleep(POLL_S)


def _is_known(ti: Any, dag_id: str) -> bool:
    try:
        ti.get_dag(dag_id)
    except AirflowRuntimeError as error:
        log.debug("not known yet: %s", error)
        return False
    return True
