"""What a trigger may change of a submission's jobs without editing the YAML."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from inferbench_tasks.dotted import set_at

#: Parameter of a trigger (the form in Airflow's UI, ``conf`` in REST) -> path into the submission.
PARAMETERS = {
    "user": "user",
    "priority": "priority",
    "duration_s": "load.duration_s",
    "warmup_s": "load.warmup_s",
    "seed": "load.seed",
}


def override(document: dict[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a job's or submission's document with the given parameters put in; None changes nothing."""
    changed = copy.deepcopy(document)
    for name, path in PARAMETERS.items():
        if (value := parameters.get(name)) is not None:
            set_at(changed, path, value)
    return changed
