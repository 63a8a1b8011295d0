"""The two ways by which Airflow gets the plugin: the checkout's folder ``plugins/``, or the package's entry point.

A checkout has both, for its editable install brings the entry point, and Airflow calls a plugin that comes twice an
error. Airflow reads the folder first: the entry point yields the plugin only where the folder did not.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

#: Airflow's setting. Somebody's own folder stays what it is; without our file in it the entry point is used.
SETTING = "AIRFLOW__CORE__PLUGINS_FOLDER"
#: Our file in the folder, and the name under which Airflow keeps what it read from it.
MODULE = "inferbench_plugin"


def setting() -> dict[str, str]:
    """Airflow's setting of its plugins folder: the user's own, else the checkout's, else none."""
    if own := os.environ.get(SETTING):
        return {SETTING: own}
    folder = Path(__file__).resolve().parents[2] / "plugins"
    return {SETTING: str(folder)} if (folder / f"{MODULE}.py").is_file() else {}


def __getattr__(name: str) -> Any:
    """``plugin``, what the entry point names: the class, or None (which Airflow passes over) after the folder's file.

    Asked anew each time: Airflow's core and its task SDK have a plugin manager each, in one process.
    """
    if name != "plugin":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from inferbench_tasks.provider.plugin import InferBenchPlugin

    file = sys.modules.get(MODULE)
    return None if getattr(file, "InferBenchPlugin", None) is InferBenchPlugin else InferBenchPlugin
