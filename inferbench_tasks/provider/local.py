"""Run an invocation's DAG by Airflow in this process: ``python -m inferbench_tasks.provider.local DIR``.

``dag.test()`` needs a metadata database and a DAG file. Each invocation has its own of both under its
folder, so that runs at the same time never meet in one SQLite file.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks import settings
from inferbench_tasks.interrupt import die_with_parent
from inferbench_tasks.provider import metadata_db
from inferbench_tasks.provider.execution_api import drop_old_versions
from inferbench_tasks.provider.metadata_db import airflow_environment
from inferbench_tasks.running.child import keeping
from inferbench_tasks.running.invocation import Invocation

if TYPE_CHECKING:
    from airflow.sdk import DAG

log = logging.getLogger(__name__)

DAG_FILE = '''"""The DAG of one local invocation; airflow finds it here by name."""

from inferbench_tasks.provider.local import invocation_dag

dag = invocation_dag()
'''


def prepare(invocation: Invocation, data_dir: Path) -> dict[str, str]:
    """Make the invocation's Airflow home; returns the environment for the process that uses it."""
    home, dags = invocation.dir / "airflow", invocation.dir / "dags"
    home.mkdir(exist_ok=True)
    dags.mkdir(exist_ok=True)
    (dags / "submission.py").write_text(DAG_FILE)
    metadata_db.copy(home / "airflow.db", data_dir)
    return {**airflow_environment(home, dags), settings.INVOCATION_DIR: str(invocation.dir)}


def invocation_dag() -> DAG:
    """The DAG of the invocation that this process works on."""
    from inferbench_tasks.provider.render import render

    order = Invocation.at(Path(os.environ[settings.INVOCATION_DIR])).order()
    return render(order.submission, base_dir=Path(order.base_dir), one_at_a_time=True, split=False)


def main(folder: Path) -> int:
    """Exit code 0 if the DAG run succeeded."""
    die_with_parent()
    # Airflow's import makes millions of objects that stay: looking through them again and again is 7% of a short run.
    gc.set_threshold(100_000, 20, 100)
    atexit.register(gc.freeze)  # and once more as the interpreter ends, for 1 to 2 s
    invocation = Invocation.at(folder)
    data_dir = Path(invocation.order().data_dir)
    os.environ |= prepare(invocation, data_dir) | {settings.DATA_DIR: str(data_dir)}
    drop_old_versions()
    with keeping():
        run = invocation_dag().test()
    return 0 if run is not None and run.state == "success" else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
