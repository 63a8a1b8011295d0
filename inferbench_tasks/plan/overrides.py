"""What a trigger may change of a submission's jobs without editing the YAML: its pipeline's parameters."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from inferbench_tasks.dotted import set_at, value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.pipelines.base import job_of, pipeline_of
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.sweep import job_id


def override(document: dict[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a job's or submission's document with the parameters put in that its kind has.

    None changes nothing. InputError for a parameter of a block that it does not have.
    """
    changed = copy.deepcopy(document)
    for name, parameter in pipeline_of(document).parameters.items():
        if (value := parameters.get(name)) is not None:
            block = parameter.path.rpartition(".")[0]
            if block and value_at(changed, block) is None:
                message = (
                    f"{name} changes {parameter.path} of the {block}, which this submission does not have"
                )
                raise InputError(f"{message}; leave it out")
            set_at(changed, parameter.path, value)
    return changed


def overridden(stage_input: dict[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A stage's input with a trigger's parameters in it; a job that asks for something else has another id."""
    if "submission" in stage_input:
        return {**stage_input, "submission": override(stage_input["submission"], parameters)}
    document = override(stage_input["job"], parameters)
    spec = job_of(document)
    return {"job_id": job_id(spec.name, job_digest(spec)), "job": document}
